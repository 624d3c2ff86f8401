import { alsoInlineInFull } from "../../inline.ts";

await alsoInlineInFull("pass/course", "pass/races", "pass/parallel", "pass/branches");
