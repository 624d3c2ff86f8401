import { alsoInlineInFull } from "../../inline.ts";

await alsoInlineInFull("pass/caught", "pass/after-failure", "pass/heard", "pass/late-answers");
