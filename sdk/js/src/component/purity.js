// Evaluated after the controller's own modules: from then on there is neither clock nor chance. Without this a call would end the run
// without a word, or give the same "random" number in every instance.

/**
 * @param {string} what
 * @param {string} instead
 * @returns {never}
 */
function refuse(what, instead) {
  throw new Error(`${what} is not there, because the same view must give the same outcome: ${instead}`);
}

const TIME = "use lister.now()";
const { Date: RealDate } = globalThis;

globalThis.Date = new Proxy(RealDate, {
  construct(target, values, newTarget) {
    return values.length === 0 ? refuse("new Date()", TIME) : Reflect.construct(target, values, newTarget);
  },
  apply() {
    return refuse("Date()", TIME);
  },
});
RealDate.now = () => refuse("Date.now()", TIME);
Math.random = () => refuse("Math.random()", "derive what must differ from names and uids, for example with hash(), or use generateName");
// Its own functions are read-only.
Object.defineProperty(globalThis, "performance", { value: { now: () => refuse("performance.now()", TIME) } });
