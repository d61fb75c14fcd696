/* The sanitizer over the simulator is a backend, too; and the programs of the suite, all ordered, give no reports. */
#include "backend/san.h"
#include "conformance.h"
#include "support.h"

static sli_backend *wrap(sli_backend *inner) {
    sli_backend *san = NULL;
    ck_assert_int_eq(sli_san_create(inner, &san), SL_OK);
    return san;
}

static void check(sli_backend *san) {
    ck_assert_uint_eq(sli_san_reports(san), 0);
    ck_assert(!sli_san_is_off(san));
}

int main(void) {
    static const conformance_setup setup = {.name = "conformance of the sanitizer over sim",
                                            .platform = &sli_sim_platform,
                                            .n_devices = 3,
                                            .wrap = wrap,
                                            .check = check};
    return conformance_main(&setup);
}
