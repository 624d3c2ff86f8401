import { EVERY_MINUTE } from "./wanted.ts";

/** What becomes of a Worker's first source file. */
export type SourceEdit =
  | { readonly kind: "none" }
  | { readonly kind: "edited"; readonly text: string }
  /** Its shape is not one that can be edited safely: lines to paste. */
  | { readonly kind: "paste"; readonly why: string; readonly lines: string };

const PACKAGE = "millrace";
const IMPORT = `import { millrace } from "${PACKAGE}";`;
const HANDLERS = ["fetch", "queue", "scheduled"] as const;
type HandlerName = (typeof HANDLERS)[number];

/** The handlers of a Worker. */
interface Own {
  /** The name of the object that has them. */
  name: string;
  handlers: readonly HandlerName[];
  /** True where they use `this`. */
  bind: boolean;
  ownsMinute: boolean;
}

/** The lines that export the engine's handler and classes, with the handlers that the Worker has. */
function exportsOf({ name: own, handlers, bind, ownsMinute }: Own): string {
  const options = handlers.map((name) => `  ${name}: ${bind ? `${own}.${name}.bind(${own})` : `${own}.${name}`},`);
  if (handlers.includes("scheduled") && !ownsMinute) options.push(`  engineCron: ${JSON.stringify(EVERY_MINUTE)},`);
  return [
    "// The engine answers its own paths and queues; all others go to your handlers. List each workflow in `workflows`.",
    "export const { handler, catalog, Runs, Recorder, Keeper } = millrace({",
    "  workflows: [],",
    ...options,
    "});",
    "export default handler;",
    "",
  ].join("\n");
}

/**
 * Adds the engine to a source that exports a Hono app or an object with handlers. All other lines stay as they are. `exporting` compiles a
 * text, and returns the names that it exports; `ownsMinute` is true for a Worker that has a cron of each minute for itself.
 */
export async function editSource(text: string, exporting: (text: string) => Promise<string[]>, ownsMinute: boolean): Promise<SourceEdit> {
  if (/from\s+["']millrace(?:\/worker)?["']/.test(text)) return { kind: "none" };
  const plain = withoutTexts(text);
  const found = [...plain.matchAll(/^export\s+default\s+/gm)];
  const [one] = found;
  const like = { name: "app", handlers: ["fetch"], bind: false, ownsMinute } as const;
  const paste = (why: string): SourceEdit => ({ kind: "paste", why, lines: `${IMPORT}\n\n${exportsOf(like)}` });
  if (!one || found.length > 1) return paste("it has no line that begins with `export default`");
  const start = one.index + one[0].length;
  const identifier = /^([A-Za-z_$][\w$]*)\s*;?[ \t]*(?=\n|$)/.exec(plain.slice(start));
  const at = { text, plain, from: one.index, start, ownsMinute };
  const edit = identifier ? ofIdentifier(at, identifier) : ofObject(at);
  if (typeof edit !== "string") return paste(edit.why);
  const names = await exporting(edit).catch((): string[] => []);
  if (["Runs", "Recorder", "Keeper", "default"].every((name) => names.includes(name))) return { kind: "edited", text: edit };
  return paste("its names collide with those of the engine: handler, catalog, Runs, Recorder, Keeper");
}

/** A default export in a source. */
interface Place {
  text: string;
  /** The text without comments and the contents of texts. */
  plain: string;
  from: number;
  /** Where the exported value begins. */
  start: number;
  ownsMinute: boolean;
}

/** `export default app`, of a Hono app or of an object in the same file. */
function ofIdentifier({ text, plain, from, start, ownsMinute }: Place, [whole, name = ""]: RegExpExecArray): string | { why: string } {
  const declared = new RegExp(`\\b(?:const|let|var)\\s+${name}\\b[^=\\n]*=\\s*`).exec(plain);
  if (!declared) return { why: `\`${name}\` is not declared in it by const` };
  const at = declared.index + declared[0].length;
  const isObject = plain[at] === "{";
  const handlers = isObject ? handlersIn(plain, at) : undefined;
  if (isObject && handlers === undefined) return { why: `\`${name}\` has handlers that are not written out` };
  if (!isObject && !/^(?:new\s+[\w.]*Hono\b|fromHono\(|await\s+fromHono\(|[\w.]*[hH]ono\w*\()/.test(plain.slice(at)))
    return { why: `\`${name}\` is neither a Hono app nor an object with handlers in the same file` };
  const lines = exportsOf({ name, handlers: handlers ?? ["fetch"], bind: isObject && usesThis(plain, at), ownsMinute });
  return withImport(`${text.slice(0, from)}${lines.trimEnd()}${text.slice(start + whole.length)}`);
}

/** `export default { fetch… }`, with or without `satisfies ExportedHandler<Env>`. */
function ofObject({ text, plain, from, start, ownsMinute }: Place): string | { why: string } {
  if (plain[start] !== "{") return { why: "its default export is neither a name nor an object" };
  const handlers = handlersIn(plain, start);
  if (handlers === undefined) return { why: "its default export has handlers that are not written out" };
  const rest = text.slice(start).trimEnd();
  const own = { name: "worker", handlers, ownsMinute, bind: usesThis(plain, start) };
  return withImport(`${text.slice(0, from)}const worker = ${rest}${rest.endsWith(";") ? "" : ";"}

${exportsOf(own)}`);
}

/** The handlers of an object, by its members at the first level; undefined where one of them is spread into it, or has a computed name. */
function handlersIn(plain: string, open: number): HandlerName[] | undefined {
  const close = closing(plain, open);
  let depth = 0;
  let flat = "";
  for (const char of plain.slice(open + 1, close)) {
    if ("{([".includes(char)) depth++;
    flat += depth === 0 ? char : char === "\n" ? "\n" : " ";
    if ("})]".includes(char)) depth--;
  }
  if (
    flat.includes("...") ||
    /(?:^|,)\s*\[/.test(
      plain
        .slice(open + 1, close)
        .trimStart()
        .slice(0, 1),
    )
  )
    return undefined;
  const found = HANDLERS.filter((name) => new RegExp(`(?:^|[\\s,])${name}\\b`).test(flat));
  return found.length > 0 ? found : undefined;
}

const usesThis = (plain: string, open: number) => /\bthis\b/.test(plain.slice(open, closing(plain, open)));

function closing(plain: string, open: number): number {
  let depth = 0;
  for (let at = open; at < plain.length; at++) {
    if (plain[at] === "{") depth++;
    if (plain[at] === "}" && --depth === 0) return at;
  }
  return plain.length;
}

/** The import goes before the first one that is there, or above the code. */
function withImport(text: string): string {
  const first = /^import\s/m.exec(withoutTexts(text));
  if (first) return `${text.slice(0, first.index)}${IMPORT}\n${text.slice(first.index)}`;
  const [above = ""] = /^(?:\s*(?:\/\*[\s\S]*?\*\/|\/\/[^\n]*\n))*\s*/.exec(text) ?? [];
  return `${above}${IMPORT}\n\n${text.slice(above.length)}`;
}

/** Comments and the contents of texts as spaces, so that each place stays where it was. */
function withoutTexts(text: string): string {
  const blank = (found: string) => found.replace(/[^\n]/g, " ");
  return text.replace(/\/\/[^\n]*|\/\*[\s\S]*?\*\/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`(?:\\[\s\S]|[^`\\])*`/g, blank);
}
