"""A deterministic text of more than 1 MB that is hard on tokenizers: words of many scripts, combining marks, emoji
sequences, code, white space of all kinds, digits, control characters, spellings of special tokens, random code points.
"""

import random

PHRASES = [
    "The kettle sings before the rain reaches the harbour.", "I'd say we'll need what they've got; she's sure it isn't.",
    "Der Müller trägt fünf Säcke Weizen über die große Brücke.", "L'été dernier, on a mangé des crêpes près de l'église.",
    "El niño pequeño soñaba con montañas y cigüeñas.", "Ontem à noite não choveu, mas o chão está úmido.",
    "Più tardi andrò in città perché c'è la fiera.", "Ve čtvrtek přišel žlutý kůň až k řece.",
    "Zażółć gęślą jaźń, rzekł żółw do łosia.", "Åsa köper blåbärssylt på ön i höst.",
    "Pitkä yö päättyi, kun järven jää murtui.", "Đêm qua trời mưa to, đường phố ngập nước.",
    "İstanbul'da güneşli bir öğle vakti çay içtik.", "Утром рыбак починил старую лодку и ушёл в море.",
    "Їжак знайшов під ґанком яблуко.", "Ο γέρος ψαράς κοιτάζει τη θάλασσα κάθε πρωί.",
    "בוקר טוב, הדייג הזקן יוצא לים.", "خرج الصياد العجوز إلى البحر قبل الفجر.", "ماهیگیر پیر پیش از سپیده به دریا رفت.",
    "बूढ़ा मछुआरा सुबह-सुबह समुद्र की ओर चला।", "বুড়ো জেলে ভোরে নদীতে গেল।", "முதிய மீனவர் கடலுக்குச் சென்றார்.",
    "ముసలి జాలరి సముద్రానికి వెళ్ళాడు.", "ชาวประมงเฒ่าออกทะเลก่อนรุ่งสาง", "ຊາວປະມົງອອກທະເລ", "អ្នកនេសាទចាស់ចេញទៅសមុទ្រ",
    "ငါးဖမ်းသမားကြီး ပင်လယ်သို့ ထွက်သွားသည်။", "მოხუცი მეთევზე ზღვაში გავიდა.", "Ծեր ձկնորսը գնաց ծով։", "አሮጌው ዓሣ አጥማጅ ወደ ባሕር ወጣ።",
    "老渔夫天亮前就出海了，风很大。", "老漁夫在黎明前出海，海面一片寂靜。", "年老いた漁師は夜明け前に海へ出た。カモメが鳴いている。",
    "늙은 어부는 새벽이 되기 전에 바다로 나갔다.", "ᠮᠣᠩᠭᠣᠯ ᠪᠢᠴᠢᠭ", "𐤀𐤁𐤂 𐎀𐎁 𓀀𓂀", "ᚠᚢᚦᚨᚱᚲ ᛏᚹᛖ", "ꦲꦏ꧀ꦱꦫ", "ߒߞߏ ߛߓߍߛߎ߲",
]
CODE = [
    "def area(w: float, h: float = 1.5e-3) -> float:\n    return w * h  # square metres\n",
    "for (int i = 0; i < n_items; ++i) {\n\tsum += table[i]->weight << 2;\n}\n",
    "SELECT name, COUNT(*) AS c FROM boats WHERE length >= 12.50 GROUP BY name;\n",
    "<table>\n  <tr><td colspan=\"2\">&nbsp;</td></tr>\n</table>\n<h1>Title</h1><b>x</b>\n",
    "const f = async ({a, b}) => `${a ?? 'none'}-${await b()}`;\r\n", "{\"key\": [1, 2.0, -3e+10, null, true], \"ü\": \"\\u00fc\"}\n",
    "#include <vector>\n#define MAX(a,b) ((a)>(b)?(a):(b))\n", "\\begin{align}\\frac{\\partial u}{\\partial t}&=\\nabla^2u\\end{align}\n",
    "$ ls -la /usr/local/bin | grep -v '^d' && echo \"done\" >> ~/log.txt 2>&1\n", "https://example.org/a/b?c=d&e=%20f#g user@example.com\n",
]
EMOJI = ["😀", "👩‍👩‍👧‍👦", "🏳️‍🌈", "👍🏽", "🇨🇭🇯🇵", "❤️‍🔥", "🧑🏿‍🚀", "☃️", "5️⃣", "🫠", "✈", "👁️‍🗨️"]
SPECIAL = [
    "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<start_of_turn>", "<end_of_turn>", "<bos>", "<eos>", "<pad>", "<unk>", "<s>", "</s>",
    "<|eot_id|>", "<tool_call>", "</tool_call>", "<think>", "</think>", "<|fim_prefix|>", "<repo_name>", "<unused5>", "[multimodal]",
    "<start_of_image>", "<|im_start", "im_end|>", "<|im_<|im_end|>end|>", "<｜User｜>", "<｜end▁of▁sentence｜>", "▁▁", "<0x0A>", "<0xE4>",
]
SPACES = [" ", "  ", "   ", "    ", "\n", "\n\n", "\n\n\n", "\t", "\t\t", "\r\n", "\r", " \n", "\n ", " \t \n\n  ", "\u00a0", "\u3000", "\u2003", "\u2028",
          "\u200b", "\u180e", "\u0085", "\x0b", "\x0c", " " * 17, " " * 40, "\n" * 33, "\t" * 35, " \r\n\r\n\t"]
MARKS = ["\u0301", "\u0308", "\u0327", "\u0323", "\u0342", "\u05b0", "\u0651", "\u093c", "\u3099", "\u0345", "\u20dd", "\ufe0f", "\u200d"]
BASES = "aeiouyncszAEOUαωιаиеकさハ한각가ﬁﬃ①½Ⅷ²ŉĳǆſẛΩKÅ"


def random_word(rng: random.Random) -> str:
    start, end = rng.choice([(0x41, 0x5A), (0x61, 0x7A), (0xC0, 0x24F), (0x370, 0x3FF), (0x400, 0x4FF), (0x531, 0x586), (0x5D0, 0x5EA), (0x620, 0x6D3),
                             (0x904, 0x939), (0x985, 0x9B9), (0xE01, 0xE3A), (0x10A0, 0x10FF), (0x1100, 0x11FF), (0x3041, 0x3096), (0x30A1, 0x30FA),
                             (0x4E00, 0x9FA5), (0xAC00, 0xD7A3), (0x1200, 0x135A), (0x13A0, 0x13F4), (0x1E00, 0x1FFE), (0xFF01, 0xFF5E), (0x1D400, 0x1D6A3)])
    return "".join(chr(rng.randint(start, end)) for _ in range(rng.randint(1, 9)))


def random_code_points(rng: random.Random) -> str:
    limit = rng.choice([0x80, 0x250, 0x3000, 0x10000, 0x20000, 0x110000])
    out = []
    while len(out) < 12:
        code_point = rng.randrange(limit)
        if not 0xD800 <= code_point < 0xE000:
            out.append(chr(code_point))
    return "".join(out)


def marked(rng: random.Random) -> str:
    return "".join(rng.choice(BASES) + "".join(rng.choice(MARKS) for _ in range(rng.randint(0, 3))) for _ in range(rng.randint(1, 5)))


def number(rng: random.Random) -> str:
    return rng.choice([str(rng.randrange(10 ** rng.randint(1, 14))), f"{rng.random() * 1e6:,.3f}", f"0x{rng.randrange(1 << 32):08X}", "٣٤٥٦", "१२३४५", "１２３４", "ⅫⅧ",
                       f"{rng.randrange(24):02d}:{rng.randrange(60):02d}", f"v{rng.randrange(9)}.{rng.randrange(40)}-rc{rng.randrange(9)}"])


def generate(minimum_bytes: int = 1_100_000, seed: int = 20261) -> str:
    rng = random.Random(seed)
    makers = [(30, lambda: rng.choice(PHRASES)), (6, lambda: rng.choice(CODE)), (12, lambda: random_word(rng)), (4, lambda: rng.choice(EMOJI)),
              (3, lambda: rng.choice(SPECIAL)), (14, lambda: rng.choice(SPACES)), (5, lambda: marked(rng)), (6, lambda: number(rng)),
              (2, lambda: random_code_points(rng)), (1, lambda: chr(rng.randrange(32))), (3, lambda: rng.choice("!?.,;:'\"-_/\\()[]{}<>@#$%^&*+=|~`") * rng.randint(1, 6)),
              (14, lambda: " ")]
    weights = [weight for weight, _ in makers]
    parts, size = [], 0
    while size < minimum_bytes:
        part = rng.choices(makers, weights)[0][1]()
        parts.append(part)
        size += len(part.encode())
    parts.append("a" * 3000 + " " * 3000 + "\n" * 500 + "9" * 999 + "你" * 700 + "́" * 300 + "end of text ")
    return "".join(parts)


if __name__ == "__main__":
    import sys

    sys.stdout.buffer.write(generate().encode())
