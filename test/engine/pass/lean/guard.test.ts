import { alsoLean } from "../../lean.ts";

await alsoLean(
  "guard/guard",
  "guard/classes",
  "guard/confirmed",
  "guard/doubt",
  "guard/doubt-gone",
  "guard/refused-rows",
  "guard/impossible",
);
