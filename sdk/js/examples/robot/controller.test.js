import { checkCases } from "pintle/testing";

import { reconcile } from "./controller.js";

checkCases(".", reconcile);
