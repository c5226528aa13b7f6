/* What the tests of the SDK have in common. */
#ifndef PINTLE_TESTS_CHECK_H
#define PINTLE_TESTS_CHECK_H

#include "../testing/testing.h"

#define CHECK(holds) check((holds), #holds, __LINE__)
void check(bool holds, const char *text, int line);

#define EQUAL(got, expected) equal((got), (expected), __LINE__)
void equal(const char *got, const char *expected, int line);

/* JSON with single quotes. */
pintle_json *j(const char *text);

/* Whether two values are the same, one as JSON with single quotes. */
#define SAME(got, expected) same((got), (expected), __LINE__)
void same(const pintle_json *got, const char *expected, int line);

/* What a run says as it ends as a fault. */
#define FAULTS(run, expected)                        \
    do {                                             \
        jmp_buf here;                                \
        on_fault = &here;                            \
        if (setjmp(here) == 0) {                     \
            run;                                     \
            fault_message = "no fault";              \
        }                                            \
        on_fault = NULL;                             \
        CHECK(strstr(fault_message, expected) != NULL); \
    } while (0)

/* Tests of questions.c. */
void times_are_those_of_rfc_3339(void);
void a_time_that_is_too_far_away_is_looked_at_again(void);
void keys_to_wake_and_labels_of_the_run_are_shown(void);
void an_outcome_without_a_mutation_has_no_last_place(void);
void an_outcome_fails_as_a_run_does(void);
void samples_name_the_write_that_they_wait_for(void);
void resources_of_a_kind_are_those_of_all_its_versions(void);
void questions_are_answered_as_the_case_has_it(void);
void refused_questions_have_a_code_and_a_reason(void);
void a_verdict_that_is_refused_is_a_retry(void);
void what_is_asked_stays_what_it_was(void);
void needs_differ_in_every_field(void);
void live_lists_select_by_fields_and_show_as_much_as_asked_for(void);
void answers_of_a_case_that_make_no_sense_are_refused(void);
void a_duration_is_in_milliseconds(void);
void an_empty_selector_matches_what_the_watch_declares(void);
void mapped_keys_can_wait(void);

#endif
