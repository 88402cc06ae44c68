// fmt from its headers, compiled once: Debian has no static library of it.
#include <fmt/format-inl.h>

template auto fmt::detail::thousands_sep_impl<char>(locale_ref) -> thousands_sep_result<char>;
template auto fmt::detail::decimal_point_impl(locale_ref) -> char;
template auto fmt::detail::locale_ref::get<std::locale>() const -> std::locale;
template auto fmt::detail::dragonbox::to_decimal(float) noexcept -> dragonbox::decimal_fp<float>;
template auto fmt::detail::dragonbox::to_decimal(double) noexcept -> dragonbox::decimal_fp<double>;
