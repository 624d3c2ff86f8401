import { alsoLean } from "../../lean.ts";

await alsoLean("workflow/child");
