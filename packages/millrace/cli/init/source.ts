import { EVERY_MINUTE } from "./wanted.ts";

export type SourceEdit =
  | { readonly kind: "none" }
  | { readonly kind: "edited"; readonly text: string }
  /** The user must edit the source. `why` is the reason, and `lines` contains the lines to add. */
  | { readonly kind: "paste"; readonly why: string; readonly lines: string };

const PACKAGE = "millrace";
const IMPORT = `import { millrace } from "${PACKAGE}";`;
/** Handlers that `millrace({ … })` accepts. */
const HANDLERS = ["fetch", "queue", "scheduled"] as const;
/** Handlers that `millrace({ … })` does not accept. */
const OTHERS = ["email", "tail", "tailStream", "trace", "test", "connect"];
type HandlerName = (typeof HANDLERS)[number];

interface Own {
  name: string;
  handlers: readonly HandlerName[];
  /** True if the exported object has handlers that the engine does not have. */
  hasOthers?: boolean;
  /** The call that binds `this` of the handlers, if the handlers use `this`. */
  bind?: ".bind" | "?.bind" | undefined;
  /** True if the Worker already had a cron for each minute. */
  ownsMinute: boolean;
  /** The source without comments and strings, in which unused names are searched. */
  plain: string;
}

function exportsOf({ name: own, handlers, hasOthers, bind, ownsMinute, plain }: Own): string {
  const options = handlers.map((name) => `  ${name}: ${own}.${name}${bind === undefined ? "" : `${bind}(${own})`},`);
  if (handlers.includes("scheduled") && !ownsMinute) options.push(`  engineCron: ${JSON.stringify(EVERY_MINUTE)},`);
  const freeOf = (...names: string[]) => names.find((name) => !isUsed(plain, name)) ?? "engineOfThisFile";
  const handler = freeOf("handler", "engine", "engineHandler");
  const catalog = freeOf("catalog", "engineCatalog");
  const as = (name: string, other: string) => (name === other ? name : `${name}: ${other}`);
  return [
    "// The engine answers its own paths and queues; all others go to your handlers. List each workflow in `workflows`.",
    `export const { ${as("handler", handler)}, ${as("catalog", catalog)}, Runs, Recorder, Keeper } = millrace({`,
    "  workflows: [],",
    ...options,
    "});",
    hasOthers ? `export default { ...${own}, ...${handler} };` : `export default ${handler};`,
    "",
  ].join("\n");
}

const isUsed = (plain: string, name: string) => new RegExp(`(?<![.\\w$])${name}\\b`).test(plain);

const nameIn = (plain: string) => ["worker", "own", "ownWorker"].find((name) => !isUsed(plain, name)) ?? "workerOfThisFile";

/**
 * Adds the engine to a source that exports a Hono app or an object with handlers. Other lines are not changed. `exporting` compiles a
 * source and returns the names of its exports. `ownsMinute` is true if the Worker already had a cron for each minute.
 */
export async function editSource(text: string, exporting: (text: string) => Promise<string[]>, ownsMinute: boolean): Promise<SourceEdit> {
  if (/from\s+["']millrace(?:\/worker)?["']/.test(text)) return { kind: "none" };
  const plain = withoutTexts(text);
  const found = [...plain.matchAll(/^export\s+default\s+/gm)];
  const [one] = found;
  const paste = (why: string): SourceEdit => ({ kind: "paste", why, lines: linesFor(text, plain, ownsMinute) });
  if (!one || found.length > 1) return paste("it has no line that begins with `export default`");
  const start = one.index + one[0].length;
  const identifier = /^([A-Za-z_$][\w$]*)\s*;?[ \t]*(?=\n|$)/.exec(plain.slice(start));
  const at = { text, plain, from: one.index, start, ownsMinute };
  const edit = identifier ? ofIdentifier(at, identifier) : ofObject(at);
  if (typeof edit !== "string") return paste(edit.why);
  const names = await exporting(edit).catch((): string[] => []);
  if (["Runs", "Recorder", "Keeper", "default"].every((name) => names.includes(name))) return { kind: "edited", text: edit };
  return paste("it does not compile with the engine's names. Rename your own Runs, Recorder, Keeper or millrace, if it has one");
}

/** The instructions for a source that the user must edit: how to change the default export, and the lines to add. */
function linesFor(text: string, plain: string, ownsMinute: boolean): string {
  const name = nameIn(plain);
  const own: Own = { name, handlers: ["fetch"], hasOthers: true, bind: "?.bind", ownsMinute, plain };
  const found = /^export\s+(?:default\s+|\{[^}]*\bdefault\b[^}]*\})/m.exec(plain);
  const below = `Then put this at the top:\n\n${IMPORT}\n\nAnd this at the end`;
  const also = `If your handler has \`queue\` or \`scheduled\`, pass them as \`fetch\`. ${below}:\n\n${exportsOf(own)}`;
  if (!found) return `Make your handler a constant: \`const ${name} = { fetch(request, env, ctx) { … } };\`. ${also}`;
  const at = `Line ${plain.slice(0, found.index).split("\n").length}`;
  const rest = plain.slice(found.index);
  const [ofClass, given = isUsed(plain, "Main") ? "OwnMain" : "Main"] =
    /^export\s+default\s+(?:abstract\s+)?class\b(?:\s+(?!extends\b)([A-Za-z_$][\w$]*))?/.exec(rest) ?? [];
  if (ofClass !== undefined) {
    const takesNone = /\bfetch\s*\(\s*\)/.test(rest);
    const lines = exportsOf({ ...own, handlers: [], hasOthers: false }).replace(
      "  workflows: [],\n",
      `  workflows: [],\n  fetch: (request, env, ctx) => new ${given}(ctx, env).fetch(${takesNone ? "" : "request"}),\n`,
    );
    return (
      `${at}: write \`export class ${given}\` in place of \`${ofClass}\`. A service binding that calls its methods needs ` +
      `"entrypoint": "${given}". ${below}:\n\n${lines}`
    );
  }
  const [list, entries = "", , from] = /^export\s*\{([^}]*)\}(\s*from\s*(["'][^"'\n]+["']))?\s*;?/.exec(text.slice(found.index)) ?? [];
  if (list === undefined) {
    const [line = ""] = text.slice(found.index).split("\n");
    return `${at}: write \`const ${name} = ${line.slice(found[0].length)}\` in place of \`${line}\`. ${also}`;
  }
  const all = entries.split(",").map((entry) => entry.trim());
  const others = all.filter((one) => !/\bdefault$/.test(one) && one !== "").join(", ");
  const [inner = ""] = (all.find((one) => /\bdefault$/.test(one)) ?? "default").split(/\s+as\s+/);
  const naming = from === undefined ? `const ${name} = ${inner};` : `import { ${inner} as ${name} } from ${from};`;
  const kept = others === "" ? "" : ` export { ${others} }${from === undefined ? "" : ` from ${from}`};`;
  return `${at}: write \`${naming}${kept}\` in place of \`${list}\`. ${also}`;
}

interface Place {
  text: string;
  /** The source without comments and strings. */
  plain: string;
  from: number;
  start: number;
  ownsMinute: boolean;
}

/** Edits `export default app`, if `app` is a Hono app or an object that is declared in the same file. */
function ofIdentifier({ text, plain, from, start, ownsMinute }: Place, [whole, name = ""]: RegExpExecArray): string | { why: string } {
  const declared = new RegExp(`\\b(?:const|let|var)\\s+${name}\\b([^=\\n]*)=\\s*`).exec(plain);
  if (!declared) return { why: `\`${name}\` is not declared in it by const` };
  const at = declared.index + declared[0].length;
  const isObject = plain[at] === "{";
  const members = isObject ? membersIn(plain, at) : undefined;
  if (isObject && members === undefined) return { why: `\`${name}\` has handlers that are not written out` };
  if (!isObject && !/^(?:new\s+[\w.]*Hono\b|fromHono\(|await\s+fromHono\(|[\w.]*[hH]ono\w*\()/.test(plain.slice(at)))
    return { why: `\`${name}\` is neither a Hono app nor an object with handlers in the same file` };
  // If the object has a declared type, each handler may be undefined.
  const bind = !isObject || !usesThis(plain, at) ? undefined : declared[1]?.trim() === "" ? ".bind" : "?.bind";
  const lines = exportsOf({ name, ...(members ?? { handlers: ["fetch"] }), bind, ownsMinute, plain });
  return withImport(`${text.slice(0, from)}${lines.trimEnd()}${text.slice(start + whole.length)}`);
}

/** Edits `export default { fetch… }`, with or without `satisfies ExportedHandler<Env>`. */
function ofObject({ text, plain, from, start, ownsMinute }: Place): string | { why: string } {
  if (plain[start] !== "{") return { why: "its default export is neither a name nor an object" };
  const members = membersIn(plain, start);
  if (members === undefined) return { why: "its default export has handlers that are not written out" };
  const rest = text.slice(start).trimEnd();
  const isCast = /^\s*(?:as|satisfies)\b/.exec(plain.slice(closing(plain, start) + 1))?.[0].trim() === "as";
  const bind = usesThis(plain, start) ? (isCast ? "?.bind" : ".bind") : undefined;
  const own = { name: nameIn(plain), ...members, ownsMinute, plain, bind } as const;
  return withImport(`${text.slice(0, from)}const ${own.name} = ${rest}${plain.trimEnd().endsWith(";") ? "" : ";"}

${exportsOf(own)}`);
}

/** The handlers of an object literal. Undefined if the literal has a spread or a computed name. */
function membersIn(plain: string, open: number): Pick<Own, "handlers" | "hasOthers"> | undefined {
  let depth = 0;
  let flat = "";
  for (const char of plain.slice(open + 1, closing(plain, open))) {
    if (depth === 0 || "\n".includes(char)) flat += char;
    if ("{([".includes(char)) depth++;
    if ("})]".includes(char)) depth--;
  }
  const parts = flat.split(",").filter((part) => part.trim() !== "");
  const names = parts.map((part) => /^\s*(?:async\b(?!\s*[:(])\s*)?\*?\s*([A-Za-z_$][\w$]*)/.exec(part)?.[1]);
  if (names.includes(undefined)) return undefined;
  const handlers = HANDLERS.filter((name) => names.includes(name));
  const hasOthers = OTHERS.some((name) => names.includes(name));
  return handlers.length > 0 || hasOthers ? { handlers, hasOthers } : undefined;
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

function withImport(text: string): string {
  const first = /^import\s/m.exec(withoutTexts(text));
  if (first) return `${text.slice(0, first.index)}${IMPORT}\n${text.slice(first.index)}`;
  const [above = ""] = /^(?:\s*(?:\/\*[\s\S]*?\*\/|\/\/[^\n]*\n))*\s*/.exec(text) ?? [];
  return `${above}${IMPORT}\n\n${text.slice(above.length)}`;
}

/** Replaces comments and strings by spaces, so that offsets stay the same. */
function withoutTexts(text: string): string {
  const blank = (found: string) => found.replace(/[^\n]/g, " ");
  return text.replace(/\/\/[^\n]*|\/\*[\s\S]*?\*\/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`(?:\\[\s\S]|[^`\\])*`/g, blank);
}
