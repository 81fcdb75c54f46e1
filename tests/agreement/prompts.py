"""Twenty prompts for comparing engines: prose, code, questions, several languages. Written for this purpose.

Questions are framed as a chat turn where the model's vocabulary has the ChatML markers, else as plain text.
"""

PROSE = [
    "The lighthouse keeper had counted the waves for thirty years, and on the morning of the storm he",
    "Photosynthesis is the process by which plants turn light into chemical energy. It begins when",
    "The history of bridges starts with fallen trees. Later, people learned to build arches out of stone, because",
    "Dear Ms. Okafor,\n\nThank you for your letter of 3 March about the broken heating in the reading room. We",
    "Once upon a time there was a small robot that was afraid of the dark. Every evening",
    "In 1869, Mendeleev arranged the chemical elements by atomic weight and noticed that their properties",
]

CODE = [
    "def binary_search(values, target):\n    \"\"\"Index of target in the sorted list, or -1.\"\"\"\n",
    "// Reverses a singly linked list in place.\nstruct Node* reverse(struct Node* head) {\n",
    "SELECT customer.name, SUM(invoice.amount) AS total\nFROM customer\nJOIN invoice ON",
    "#!/bin/bash\n# Delete log files older than 30 days and report how much space was freed.\n",
    '{"name": "Ada Lovelace", "born": 1815, "fields": ["mathematics", "computing"]}\n{"name": "Alan Turing", "born":',
]

QUESTIONS = [
    "Explain in a few sentences why the sky is blue during the day and red in the evening.",
    "Write a short poem about a river that forgets its way to the sea.",
    "List five things to check before a long bicycle tour, with one sentence for each.",
    "A train leaves at 9:40 and arrives at 13:05. How long does the journey take? Explain step by step.",
    "What is the difference between a process and a thread? Answer for a beginner.",
]

LANGUAGES = [
    "Der Wald war still, nur der Specht klopfte, und der alte Förster dachte daran, wie",
    "La recette de ma grand-mère commence toujours par des oignons, que l'on fait revenir doucement dans",
    "El tren salió de la estación con veinte minutos de retraso, y los pasajeros",
    "春天来了，山上的雪慢慢融化，小河里的水",
]


def frame_question(question, has_chatml):
    if has_chatml:
        return f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"
    return f"Question: {question}\n\nAnswer:"


def all_prompts(has_chatml):
    """[(kind, text)], 20 of them."""
    return ([("prose", text) for text in PROSE] + [("code", text) for text in CODE] +
            [("question", frame_question(text, has_chatml)) for text in QUESTIONS] +
            [("language", text) for text in LANGUAGES])
