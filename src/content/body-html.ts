import { micromark } from "micromark";
import { printable } from "./escape.ts";

/** A Markdown text as an HTML fragment. It came from a model: micromark escapes any HTML in it and refuses unsafe links. */
export function bodyHtml(markdown: string): string {
  return micromark(printable(markdown));
}
