/* Numbers in settings: quantities with a suffix, times with a unit, counts. No locale has a say in how they read. What
 * the numbers mean and which are allowed is settings.c's business. */
#include "settings.h"
#include <math.h>
#include <string.h>

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* Nothing, or e[+-]digits at `*at`: added to `*exponent`, cut off beyond what any number of ours needs. */
static bool scan_exponent(const char **at, int *exponent) {
    const char *c = *at;
    if (*c != 'e' && *c != 'E')
        return true;
    c++;
    bool negative = *c == '-';
    if (*c == '-' || *c == '+')
        c++;
    if (!is_digit(*c))
        return false;
    int value = 0;
    for (; is_digit(*c); c++)
        value = value < 1000 ? value * 10 + (*c - '0') : value;
    *exponent += negative ? -value : value;
    *at = c;
    return true;
}

/* digits[.digits][e[+-]digits]; `*text` is left behind them. Eighteen digits count, which a long double holds. */
static bool scan_decimal(const char **text, long double *value) {
    const char *c = *text;
    uint64_t mantissa = 0;
    int exponent = 0, digits = 0;
    bool point = false;
    for (; is_digit(*c) || (*c == '.' && !point); c++) {
        if (*c == '.') {
            point = true;
            continue;
        }
        bool counts = mantissa < 100000000000000000u;
        if (counts)
            mantissa = mantissa * 10 + (uint64_t)(*c - '0');
        exponent += point ? -(int)counts : (int)!counts;
        digits++;
    }
    if (!is_digit(**text) || digits > 1000 || c[-1] == '.' || !scan_exponent(&c, &exponent))
        return false;
    *text = c;
    *value = exponent < 0 ? (long double)mantissa / powl(10, -exponent) : (long double)mantissa * powl(10, exponent);
    return true;
}

/* K M G T, of 1,000, or Ki Mi Gi Ti, of 1,024, and a B behind either, which changes nothing. */
static bool scan_suffix(const char *c, long double *factor) {
    static const char letters[] = "KMGT";
    *factor = 1;
    const char *letter = *c ? strchr(letters, *c == 'k' ? 'K' : *c) : NULL;
    if (letter) {
        bool binary = c[1] == 'i';
        *factor = powl(binary ? 1024 : 1000, (long double)(letter - letters + 1));
        c += binary ? 2 : 1;
    }
    if (*c == 'B')
        c++;
    return *c == '\0';
}

bool sli_parse_quantity(const char *text, double *value) {
    long double number, factor;
    if (!scan_decimal(&text, &number) || !scan_suffix(text, &factor))
        return false;
    double product = (double)(number * factor);
    if (!isfinite(product))
        return false;
    *value = product;
    return true;
}

bool sli_parse_ns(const char *text, uint64_t *ns) {
    static const struct {
        const char *name;
        long double ns;
    } units[] = {{"", 1}, {"ns", 1}, {"us", 1e3L}, {"ms", 1e6L}, {"s", 1e9L}};
    long double number;
    if (!scan_decimal(&text, &number))
        return false;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcmp(text, units[i].name) != 0)
            continue;
        long double product = number * units[i].ns;
        if (!(product < 0x1p63L))
            return false;
        *ns = (uint64_t)(product + 0.5L);
        return true;
    }
    return false;
}

bool sli_parse_count(const char *text, uint64_t most, uint64_t *count) {
    uint64_t value = 0;
    if (!*text)
        return false;
    for (; *text; text++) {
        if (!is_digit(*text) || value > most)
            return false;
        value = value * 10 + (uint64_t)(*text - '0');
    }
    if (value > most)
        return false;
    *count = value;
    return true;
}
