// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the searched text is source, with its placeholders.
import { mutantsOf } from "./mutant.ts";

/** A batch's commits, changed afterwards. */
export const BATCHES = mutantsOf("batches", {
  "a late attempt overwrites a part of a report that another attempt committed": {
    file: "src/systems/batches/parts.ts",
    find: '${String(part).padStart(16, "0")}-${crypto.randomUUID()}',
    put: '${String(part).padStart(16, "0")}',
    killedBy: "test/systems/batches/export.test.ts",
  },
});
