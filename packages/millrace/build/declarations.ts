// Bundles the declarations that an entry point reaches. The comments of exported names are kept, and the comments of options: the members of
// types that parameters have. If two declarations have the same name, the second goes to another file.
import { globSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";

/** A statement, with the names that it declares, imports or exports. `names` maps each name to its name in the module `from`. */
interface Part {
  readonly text: string;
  readonly names: ReadonlyMap<string, string>;
  readonly from?: string;
}
/** `scope` maps each name in the file to the module and the name of its declaration. Global names are not mapped. */
interface Bundle {
  readonly file: string;
  readonly scope: Map<string, string>;
  readonly texts: string[];
}

const INLINE = /import\("(\.[^"]+)"\)\.(\w+)/g;
const COMMENT = /^\s*\/\*\*[\s\S]*?\*\/\n?/gm;
/** Entry points for operation and tests. Their options have no comments, because the size of the package is limited. */
const OF_OPERATION = /\/(operate|worker|mcp|testing\/index)\.d\.ts$/;

export function bundleDeclarations(folder: string, entries: readonly string[]): void {
  const files = new Map(globSync("**/*.d.ts", { cwd: folder }).map((name) => [join(folder, name), partsOf(join(folder, name))]));
  const entryParts = entries.map((file) => [file, files.get(file) ?? []] as const);
  const exported = new Set(entryParts.flatMap(([, parts]) => parts.flatMap(({ names }) => [...names.keys()])));

  const find = (file: string, name: string): string => {
    const part = files.get(file)?.find(({ names }) => names.has(name));
    if (part === undefined) return files.has(file) ? "" : `${file} ${name}`;
    return part.from === undefined ? `${file} ${name}` : find(part.from, part.names.get(name) ?? name);
  };
  const reached = new Set([...exported].flatMap((name) => entries.map((file) => find(file, name))));
  const keptOf = (file: string, parts: readonly Part[]) => {
    const kept = parts.filter(({ from, names }) => !from && [...names.keys()].some((name) => reached.has(`${file} ${name}`)));
    return kept.length > 0 ? [...kept, ...parts.filter(({ text }) => text.startsWith("declare global"))] : [];
  };
  for (let before = 0; before < reached.size; ) {
    before = reached.size;
    for (const [file, parts] of files)
      for (const { text } of keptOf(file, parts)) for (const word of wordsIn(text)) reached.add(find(file, word));
  }

  const partOf = (key: string) => {
    const [file = "", name = ""] = key.split(" ");
    return files.get(file)?.find(({ names, from }) => !from && names.has(name));
  };
  const options = new Set<string>();
  for (const [file, parts] of entryParts) {
    if (OF_OPERATION.test(file)) continue;
    for (const name of parts.flatMap(({ names }) => [...names.keys()])) {
      const key = find(file, name);
      for (const word of parametersIn(partOf(key)?.text ?? "")) options.add(find(key.split(" ")[0] ?? "", word));
    }
  }
  for (const key of options) {
    const text = partOf(key)?.text.replaceAll(COMMENT, "") ?? "";
    // The members of an interface have no further options, but an extended interface has.
    const names = /^(?:export )?type /.test(text) ? text : (text.split("{")[0] ?? "");
    for (const word of wordsIn(names)) options.add(find(key.split(" ")[0] ?? "", word));
  }
  const documented = (file: string, { text, names }: Part): string => {
    const [lead = ""] = /^\/\*\*[\s\S]*?\*\/\n/.exec(text) ?? [];
    const rest = text.slice(lead.length);
    // A Worker only exports a class of Durable Objects, and calls no method of the class.
    const bare = /^export declare class \w+ extends DurableObject\b/.test(rest) ? rest.replaceAll(COMMENT, "") : rest;
    if ([...names.keys()].some((name) => exported.has(name))) return lead + bare;
    const isOption = /^(?:export )?(?:interface|type) /.test(rest) && [...names.keys()].some((name) => options.has(`${file} ${name}`));
    return isOption ? rest : rest.replaceAll(COMMENT, "");
  };

  const bundles: Bundle[] = [];
  const targets = new Map(entries.map((file) => [file, file]));
  for (const [file, parts] of files) {
    if (entries.includes(file)) continue;
    rmSync(file);
    const kept = keptOf(file, parts);
    if (kept.length === 0) continue;
    const names = kept.flatMap((part) => [...part.names.keys(), ...wordsIn(part.text)]);
    const scope = new Map(names.map((name) => [name, find(file, name)]));
    const fitting = bundles.find((other) => [...scope].every(([name, declared]) => (other.scope.get(name) ?? declared) === declared));
    const bundle: Bundle = fitting ?? { file: join(folder, `src/types${bundles.length + 1}.d.ts`), scope: new Map(), texts: [] };
    if (fitting === undefined) bundles.push(bundle);
    for (const [name, declared] of scope) bundle.scope.set(name, declared);
    bundle.texts.push(...kept.map((part) => documented(file, part)));
    targets.set(file, bundle.file);
  }

  const pathTo = (from: string, file: string) => {
    const target = targets.get(file);
    if (target === undefined) return file;
    const path = relative(dirname(from), target).replace(/\.d\.ts$/, ".js");
    return path.startsWith(".") ? path : `./${path}`;
  };
  for (const { file, scope, texts } of bundles) {
    const imports = new Map<string, string[]>();
    for (const [name, declared] of scope) {
      const [from = "", other = ""] = declared.split(" ");
      if (declared === "" || targets.get(from) === file) continue;
      const path = pathTo(file, from);
      if (other === "*") texts.unshift(`import type * as ${name} from "${path}";`);
      else imports.set(path, [...(imports.get(path) ?? []), other === name ? name : `${other} as ${name}`]);
    }
    const lines = [...imports].map(([path, names]) => `import type { ${names.sort().join(", ")} } from "${path}";`);
    writeFileSync(file, [...lines.sort(), ...texts, ""].join("\n"));
  }
  for (const [file, parts] of entryParts) {
    const texts = parts.map(({ text, names, from }) => {
      const [declared = "", ...others] = new Set([...names.keys()].map((name) => pathTo(file, find(file, name).split(" ")[0] ?? "")));
      if (others.length > 0) throw new Error(`Declarations: ${text} of ${file} comes from several files. Export each from its own file.`);
      return from === undefined ? text : text.replace(/"[^"]+";/, `"${declared}";`);
    });
    writeFileSync(file, `${texts.join("\n")}\n`);
  }
}

/**
 * The statements of a file, and an import for each `import("…").Name`. The result is indented with tabs, and each paragraph of a comment is
 * on one line. Each statement and its comment begin in the first column.
 */
function partsOf(file: string): Part[] {
  const moduleOf = (path: string) => (path.startsWith(".") ? join(dirname(file), path.replace(/\.[jt]s$/, ".d.ts")) : path);
  const content = readFileSync(file, "utf8")
    .trim()
    .replaceAll(/^(?: {4})+/gm, (spaces) => "\t".repeat(spaces.length / 4))
    .replaceAll(/(?<!\/\*\*)\n\s* \* (?=[a-zA-Z`(])/g, " ")
    .replaceAll(/^\tprotected .*;\n/gm, "");
  const inline = new Map([...content.matchAll(INLINE)].map(([, path = "", name = ""]) => [name, path]));
  const statements = content.replaceAll(INLINE, "$2").split(/\n(?=\/\*\*|(?<!\*\/\n)(?:export|declare|import|interface|type) )/);
  const parts = statements.map((text) => {
    const [, list, whole, path] = /^(?:import|export)(?: type)? (?:\{([^}]*)\}|\* as (\w+)) from "([^"]+)"/m.exec(text) ?? [];
    if (path === undefined) {
      const name = /^(?:export )?(?:declare )?(?:abstract )?(?:class|const|function|interface|type|let|enum) (\w+)/m.exec(text)?.[1];
      return { text, names: new Map(name === undefined ? [] : [[name, name]]) };
    }
    const names = (list ?? "").split(",").flatMap((one) => {
      const [, other = "", name = other] = /^\s*(?:type )?(\w+)(?: as (\w+))?/.exec(one) ?? [];
      return other === "" ? [] : [[name, other] as const];
    });
    return { text, from: moduleOf(path), names: new Map(whole === undefined ? names : [[whole, "*"]]) };
  });
  const isKnown = (name: string) => parts.some(({ text, names }) => !/^export (type )?\{/.test(text) && names.has(name));
  const imports = [...inline].filter(([name]) => !isKnown(name));
  const imported = imports.map(([name, path]) => {
    const text = `import type { ${name} } from "${path}";`;
    return { text, from: moduleOf(path), names: new Map([[name, name]]) };
  });
  return [...parts, ...imported];
}

/** The words in the parameters of a statement's functions and methods. */
function parametersIn(text: string): Set<string> {
  let depth = 0;
  const inside = [...text.replaceAll(COMMENT, "")].map((sign) => {
    if (sign === "(") depth++;
    if (sign === ")") depth--;
    return depth > 0 ? sign : " ";
  });
  return wordsIn(inside.join(""));
}

/** The words of a statement, without the names of properties, methods and parameters. */
function wordsIn(text: string): Set<string> {
  return new Set(
    text
      .replaceAll(COMMENT, "")
      .replaceAll(/"[^"\n]*"/g, '""')
      .match(/\b[A-Za-z_]\w*\b(?!\??[:(])/g),
  );
}
