/* status.c. */
#include "error.h"
#include "support.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>

START_TEST(every_status_has_a_name_of_its_own) {
    for (int i = 0; i < SL_STATUS_COUNT; i++) {
        ck_assert_ptr_nonnull(sl_status_name((sl_status)i));
        for (int j = 0; j < i; j++)
            ck_assert_str_ne(sl_status_name((sl_status)i), sl_status_name((sl_status)j));
    }
    ck_assert_str_eq(sl_status_name(SL_OK), "ok");
    ck_assert_str_eq(sl_status_name(SL_OUT_OF_MEMORY), "out of memory");
    ck_assert_str_eq(sl_status_name(SL_STATUS_COUNT), "unknown status");
    ck_assert_str_eq(sl_status_name((sl_status)-1), "unknown status");
}
END_TEST

START_TEST(the_last_sentence_stays_until_the_next) {
    ck_assert_str_eq(sl_last_error(), "");
    ck_assert_int_eq(sl_fail(SL_BUSY, "%d jobs wait", 7), SL_BUSY);
    ck_assert_str_eq(sl_last_error(), "7 jobs wait");
    ck_assert_int_eq(sl_fail(SL_IO, "then: %s", sl_last_error()), SL_IO);
    ck_assert_str_eq(sl_last_error(), "then: 7 jobs wait");
}
END_TEST

START_TEST(words_go_before_a_sentence) {
    sl_fail(SL_INVALID, "input 0 is wrong");
    ck_assert_int_eq(sli_fail_within(SL_STAGE_FAILED, "stage '%s': ", "front"), SL_STAGE_FAILED);
    ck_assert_str_eq(sl_last_error(), "stage 'front': input 0 is wrong");
    ck_assert_int_eq(sli_fail_within(SL_INVALID, "graph: %s", ""), SL_INVALID);
    ck_assert_str_eq(sl_last_error(), "graph: stage 'front': input 0 is wrong");
}
END_TEST

START_TEST(long_sentences_are_cut) {
    char text[3000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    sl_fail(SL_INVALID, "%s", text);
    ck_assert_uint_eq(strlen(sl_last_error()), 1023);
    sli_fail_within(SL_INVALID, "before ");
    ck_assert_uint_eq(strlen(sl_last_error()), 1023);
    ck_assert_int_eq(strncmp(sl_last_error(), "before xxx", 10), 0);
    sli_fail_within(SL_INVALID, "%s", text);
    ck_assert_uint_eq(strlen(sl_last_error()), 1023);
}
END_TEST

static sl_status times_tried(sl_status status, int *n) {
    ++*n;
    return status;
}

static sl_status tries(sl_status first, int *n) {
    SL_TRY(times_tried(first, n));
    SL_TRY(times_tried(SL_OK, n));
    return SL_BUSY;
}

START_TEST(try_returns_the_first_failure_and_asks_once) {
    int n = 0;
    ck_assert_int_eq(tries(SL_LOST, &n), SL_LOST);
    ck_assert_int_eq(n, 1);
    ck_assert_int_eq(tries(SL_OK, &n), SL_BUSY);
    ck_assert_int_eq(n, 3);
}
END_TEST

static void *fail_elsewhere(void *user) {
    bool *was_empty = user;
    *was_empty = sl_last_error()[0] == '\0';
    sl_fail(SL_INVALID, "another thread's");
    return NULL;
}

START_TEST(a_sentence_is_its_threads_own) {
    pthread_t thread;
    bool was_empty = false;
    sl_fail(SL_INVALID, "mine");
    ck_assert_int_eq(pthread_create(&thread, NULL, fail_elsewhere, &was_empty), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert(was_empty);
    ck_assert_str_eq(sl_last_error(), "mine");
}
END_TEST

static char heard[64];
static void hear(sl_log_level level, const char *message, void *user) {
    snprintf(heard, sizeof heard, "%d %s %s", (int)level, message, (const char *)user);
}

START_TEST(the_log_is_told_with_the_users_pointer) {
    sli_log(SL_LOG_WARNING, "nobody hears this");
    char me[] = "me";
    sl_set_log(hear, me);
    sli_log(SL_LOG_INFO, "link %d", 3);
    ck_assert_str_eq(heard, "1 link 3 me");
    sl_set_log(NULL, NULL);
    sli_log(SL_LOG_INFO, "nor this");
    ck_assert_str_eq(heard, "1 link 3 me");
    ck_assert_str_eq(sl_last_error(), "");
}
END_TEST

int main(void) {
    const test_case cases[] = {
        TEST(every_status_has_a_name_of_its_own),
        TEST(the_last_sentence_stays_until_the_next),
        TEST(words_go_before_a_sentence),
        TEST(long_sentences_are_cut),
        TEST(try_returns_the_first_failure_and_asks_once),
        TEST(a_sentence_is_its_threads_own),
        TEST(the_log_is_told_with_the_users_pointer),
    };
    return test_main("status", cases, sizeof cases / sizeof *cases);
}
