// Runs every case below `cases`, without WebAssembly.
import { checkCases } from "pintle/testing";

import { reconcile } from "./controller.js";

checkCases(".", reconcile);
