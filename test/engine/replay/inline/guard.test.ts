import { alsoInline } from "../../inline.ts";

await alsoInline(
  "guard/guard",
  "guard/classes",
  "guard/confirmed",
  "guard/doubt",
  "guard/doubt-gone",
  "guard/refused-rows",
  "guard/impossible",
);
