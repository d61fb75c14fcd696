/* Tensors of a checkpoint as weights of a graph: whole, in part, turned, or converted. */
#ifndef SLI_WEIGHT_H
#define SLI_WEIGHT_H

#include <sluice/checkpoint.h>

typedef struct sli_weight {
    const char *name;
    int rank;
    int64_t shape[SL_MAX_RANK]; /* what the graph gets: [out, in], [columns], ... */
    bool transposed;            /* rank 2: the file holds [in, out] */
    int64_t first, total;       /* the graph gets `shape[0]` of `total` rows, from `first`; total 0: all there are */
    bool f32;                   /* the graph gets f32, whatever float type the file has */
    bool any_type;              /* i32 too */
} sli_weight;

/* What brings the weight's content, and its type. SL_BAD_FILE, SL_UNSUPPORTED: the tensor is missing, of another shape
 * or of a type that graphs cannot use. `source->release` gives back what it holds. */
sl_status sli_weight_source(sl_checkpoint *checkpoint, const sli_weight *weight, sl_dtype *dtype, sl_source *source);

/* Adds it to a graph, which takes the source. Errors are the graph's, as sl_checkpoint_weight says. */
sl_value sli_weight_add(sl_checkpoint *checkpoint, sl_graph *graph, const sli_weight *weight);

#endif
