// std::stable_sort without the temporary buffer of libstdc++ 12, which Clang calls deprecated.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>
#include <vector>

namespace deepinfer {

template <class Iterator, class Less>
void sort_stably(Iterator begin, Iterator end, Less less) {
    using Value = typename std::iterator_traits<Iterator>::value_type;
    std::vector<std::pair<Value, size_t>> numbered;
    for (Iterator at = begin; at != end; ++at) numbered.emplace_back(std::move(*at), numbered.size());
    std::sort(numbered.begin(), numbered.end(), [&](const auto& a, const auto& b) {
        if (less(a.first, b.first)) return true;
        return !less(b.first, a.first) && a.second < b.second;
    });
    for (auto& [value, number] : numbered) *begin++ = std::move(value);
}

}  // namespace deepinfer
