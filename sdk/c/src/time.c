/* Times as Kubernetes writes them. */
#include "internal.h"

/* The number that so many digits are; -1 if one is no digit. It reads nothing past the end of the text. */
static int64_t number(const char *digits, int n) {
    int64_t number = 0;
    for (int i = 0; i < n; i++) {
        if (digits[i] < '0' || digits[i] > '9') {
            return -1;
        }
        number = number * 10 + (digits[i] - '0');
    }
    return number;
}

static bool is_leap(int64_t year) { return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0; }

static int64_t days_in_month(int64_t year, int64_t month) {
    static const int64_t days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    return month == 2 && is_leap(year) ? 29 : days[month - 1];
}

/* Days from 1970-01-01 to the first day of a year, negative before. */
static int64_t days_before(int64_t year) {
    int64_t past = year - 1;
    /* Leap years of the Gregorian calendar up to the year, none before the year 0. */
    int64_t n_leap = past < 0 ? -1 : past / 4 - past / 100 + past / 400;
    return past * 365 + n_leap - 719162;
}

/* Seconds from UTC: Z or +hh:mm, and the end of the text. */
static bool offset_of(const char *text, int64_t *seconds) {
    *seconds = 0;
    if (text[0] == 'Z' || text[0] == 'z') {
        return text[1] == 0;
    }
    int64_t hours = text[0] == '+' || text[0] == '-' ? number(text + 1, 2) : -1;
    int64_t minutes = hours >= 0 && text[3] == ':' ? number(text + 4, 2) : -1;
    if (minutes < 0 || text[6] != 0) {
        return false;
    }
    *seconds = (hours * 3600 + minutes * 60) * (text[0] == '-' ? -1 : 1);
    return true;
}

bool pintle_time_parse(const char *text, pintle_time *time) {
    static const struct {
        int n_digits;
        const char *after;
    } parts[] = {{4, "-"}, {2, "-"}, {2, "Tt "}, {2, ":"}, {2, ":"}, {2, ".Zz+-"}};
    int64_t values[6];
    if (text == NULL) {
        return false;
    }
    for (int i = 0; i < 6; i++) {
        values[i] = number(text, parts[i].n_digits);
        if (values[i] < 0) {
            return false;
        }
        text += parts[i].n_digits;
        const char *allowed = parts[i].after;
        while (*allowed != 0 && *allowed != *text) {
            allowed++;
        }
        if (*allowed == 0) {
            return false;
        }
        text += i < 5;
    }
    int64_t year = values[0], month = values[1], day = values[2];
    if (month < 1 || month > 12 || day < 1 || day > days_in_month(year, month) || values[3] > 23 || values[4] > 59 || values[5] > 60) {
        return false;
    }
    int64_t micros = 0;
    if (*text == '.') {
        int n = 0;
        for (text++; *text >= '0' && *text <= '9'; text++, n++) {
            micros = n < 6 ? micros * 10 + (*text - '0') : micros;
        }
        if (n == 0) {
            return false;
        }
        for (; n < 6; n++) {
            micros *= 10;
        }
    }
    int64_t offset;
    if (!offset_of(text, &offset)) {
        return false;
    }
    int64_t days = days_before(year) + day - 1;
    for (int64_t before = 1; before < month; before++) {
        days += days_in_month(year, before);
    }
    *time = (((days * 24 + values[3]) * 60 + values[4]) * 60 + values[5] - offset) * 1000000 + micros;
    return true;
}
