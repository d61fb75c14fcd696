/* The content of weights: shared by graphs, plans and pipelines, gone with the last of them. Any thread. */
#include "plan.h"

sli_weight_data *sli_weight_data_retain(sli_weight_data *data) {
    atomic_fetch_add_explicit(&data->references, 1, memory_order_relaxed);
    return data;
}

void sli_weight_data_release(sli_weight_data *data) {
    if (!data || atomic_fetch_sub_explicit(&data->references, 1, memory_order_acq_rel) != 1)
        return;
    if (data->tensor)
        sl_tensor_release(data->tensor);
    else if (data->source.release)
        data->source.release(data->source.user);
    sl_free(data->name);
    sl_free(data);
}
