import { mutantsOf } from "./mutant.ts";

const BUDGET = "src/systems/facts/derived/budget.ts";
const TEST = "test/systems/facts/derived-budgets.test.ts";

/** A grant above the budget, or a count above the spending. */
export const BUDGETS = mutantsOf("budget", {
  "a held amount is granted a second time": {
    file: BUDGET,
    find: "const available = (row.limit_cents ?? 0) - row.spent - row.held;",
    put: "const available = (row.limit_cents ?? 0) - row.spent;",
    killedBy: TEST,
  },
  "a repeated charge is counted again": {
    file: BUDGET,
    find: "if (this.#isNew(entity, sequence)) {",
    put: "if (this.#isNew(entity, sequence) || amount_cents > 0) {",
    killedBy: TEST,
  },
  "the same budget request holds the amount twice": {
    file: BUDGET,
    find: 'if (known?.state === "held" || known?.state === "settled") {',
    put: 'if (known?.state === "settled") {',
    killedBy: TEST,
  },
  "a new hold gets the name of a deleted hold": {
    file: BUDGET,
    find: 'digest("hold", key, String(granted))',
    put: 'digest("hold", key, String(known?.hold))',
    killedBy: TEST,
  },
  "an expired hold still reduces the budget": {
    file: BUDGET,
    find: 'if (freed > 0) this.#sql.exec("UPDATE budget SET held = held - ?", freed);',
    put: "",
    killedBy: TEST,
  },
});
