/* All of Sluice but <sluice/uv.h>. */
#ifndef SLUICE_SLUICE_H
#define SLUICE_SLUICE_H

#include <sluice/checkpoint.h>
#include <sluice/device.h>
#include <sluice/dtype.h>
#include <sluice/generate.h>
#include <sluice/graph.h>
#include <sluice/memory.h>
#include <sluice/model.h>
#include <sluice/op.h>
#include <sluice/ops.h>
#include <sluice/pipeline.h>
#include <sluice/plan.h>
#include <sluice/status.h>
#include <sluice/tensor.h>
#include <sluice/version.h>

#endif
