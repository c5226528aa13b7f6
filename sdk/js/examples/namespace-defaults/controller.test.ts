// Runs every case below `cases`, without WebAssembly.
import { checkCases } from "pintle/testing";

import { reconcile } from "./controller.ts";

checkCases(".", reconcile);
