/* config.json: which family, its figures, and what several families say alike. Strict where a wrong value would give a
 * wrong model; keys that do not matter for running one are not looked at. */
#include "model.h"
#include "show.h"
#include <limits.h>
#include <sluice/memory.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static const sli_family *const families[] = {&sli_family_llama, &sli_family_gpt2, NULL};

const sli_family *sli_family_find(const char *name) {
    for (int i = 0; families[i]; i++)
        if (!strcasecmp(families[i]->name, name))
            return families[i];
    return NULL;
}

const char *sli_family_list(void) {
    return "llama, gpt2";
}

/* "llama3": Meta's scaling of low frequencies, as in Hugging Face's modeling_rope_utils.py. */
static sl_status read_llama3(const sli_keys *keys, sl_rotary_options *rotary) {
    rotary->scaling = SL_ROTARY_LLAMA3;
    SL_TRY(sli_key_number(keys, "factor", 1, &rotary->factor));
    SL_TRY(sli_key_number(keys, "low_freq_factor", 1e-6, &rotary->low_freq_factor));
    SL_TRY(sli_key_number(keys, "high_freq_factor", 1e-6, &rotary->high_freq_factor));
    if (rotary->high_freq_factor <= rotary->low_freq_factor)
        return sl_fail(SL_BAD_FILE, "%s: '%shigh_freq_factor' is %g: more than low_freq_factor, %g, is expected",
                       keys->file, keys->within, rotary->high_freq_factor, rotary->low_freq_factor);
    return sli_key_int(keys, "original_max_position_embeddings", 1, INT_MAX, &rotary->original_max_positions);
}

static sl_status read_scaling(const sli_keys *keys, sl_rotary_options *rotary) {
    const char *type;
    SL_TRY(sli_key_text_or(keys, "type", sli_key(keys, "factor") ? NULL : "default", &type));
    SL_TRY(sli_key_text_or(keys, "rope_type", type, &type));
    if (!type)
        return sli_key_text(keys, "rope_type", &type); /* it is missing: says so */
    if (!strcmp(type, "llama3"))
        return read_llama3(keys, rotary);
    if (!strcmp(type, "default"))
        return SL_OK;
    return sl_fail(SL_UNSUPPORTED, "%s: '%srope_type' is '%s', which is not supported; supported are default, llama3",
                   keys->file, keys->within, sli_show(type).text);
}

/* Older files have rope_theta and, for some, rope_scaling; newer ones rope_parameters, which holds both and goes first
 * (as in Hugging Face's own reader). */
sl_status sli_config_rotary(const sli_keys *keys, sl_rotary_options *rotary) {
    sli_keys inside;
    bool found;
    double partial;
    SL_TRY(sli_key_number_or(keys, "rope_theta", 1, 10000, &rotary->base));
    SL_TRY(sli_key_object(keys, "rope_parameters", "rope_parameters.", &inside, &found));
    if (!found)
        SL_TRY(sli_key_object(keys, "rope_scaling", "rope_scaling.", &inside, &found));
    if (!found)
        inside = (sli_keys){keys->file, keys->within, NULL};
    SL_TRY(sli_key_number_or(&inside, "rope_theta", 1, rotary->base, &rotary->base));
    SL_TRY(sli_key_number_or(keys, "partial_rotary_factor", 0, 1, &partial));
    SL_TRY(sli_key_number_or(&inside, "partial_rotary_factor", 0, partial, &partial));
    if (partial != 1)
        return sl_fail(SL_UNSUPPORTED, "%s: 'partial_rotary_factor' is %g: only 1 is supported", keys->file, partial);
    return found ? read_scaling(&inside, rotary) : SL_OK;
}

static sl_status read_eos(const sli_keys *keys, sl_model *model) {
    const json_t *eos = sli_key(keys, "eos_token_id");
    size_t n = json_is_array(eos) ? json_array_size(eos) : eos != NULL;
    if (!(model->eos_ids = sl_calloc(n, sizeof *model->eos_ids)))
        return SL_OUT_OF_MEMORY;
    for (size_t i = 0; i < n; i++) {
        const json_t *id = json_is_array(eos) ? json_array_get(eos, i) : eos;
        if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) > INT_MAX)
            return sl_fail(SL_BAD_FILE, "%s: 'eos_token_id' holds %s%s where an id, or a list of ids, is expected",
                           keys->file, json_is_array(eos) ? "a list with " : "",
                           json_is_integer(id) ? "a number that is none" : sli_json_kind(id));
        model->eos_ids[i] = (int)json_integer_value(id);
    }
    model->config.info.eos_ids = model->eos_ids;
    model->config.info.n_eos_ids = (int)n;
    return SL_OK;
}

static sl_status read_config(const sli_keys *keys, sl_model *model) {
    const char *type;
    SL_TRY(sli_key_text(keys, "model_type", &type));
    if (!(model->family = sli_family_find(type)))
        return sl_fail(SL_UNSUPPORTED, "%s: the model_type '%s' is not supported; supported are %s", keys->file,
                       sli_show(type).text, sli_family_list());
    if (sli_key(keys, "quantization_config"))
        return sl_fail(
            SL_UNSUPPORTED,
            "%s: 'quantization_config': quantised checkpoints are not supported; take one in F32, F16 or BF16",
            keys->file);
    SL_TRY(model->family->configure(keys, &model->config));
    sl_model_info *info = &model->config.info;
    info->family = model->family->name;
    SL_TRY(sli_key_int_or(keys, "bos_token_id", 0, INT_MAX, -1, &info->bos_id));
    return read_eos(keys, model);
}

sl_status sli_config_load(sl_model *model) {
    json_t *root;
    SL_TRY(sli_json_load(model->config_path, &root));
    sl_status status = read_config(&(sli_keys){model->config_path, "", root}, model);
    json_decref(root);
    return status;
}
