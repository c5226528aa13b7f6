/* What the parts of the plugin know of one another. */
#ifndef MISTAKES_H
#define MISTAKES_H

#include "pintle.h"

extern const pintle_kind CONFIG_MAP;

/* What a run wants that keeps one value. */
pintle_outcome *keep(const char *name, const char *value);

pintle_outcome *churn(const pintle_key *key, pintle_lister *lister);

#endif
