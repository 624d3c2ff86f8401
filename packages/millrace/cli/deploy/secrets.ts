import { randomBytes } from "node:crypto";
import { closeSync, openSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline/promises";
import { Writable } from "node:stream";
import { parseEnv } from "node:util";
import { type ParseError, parse } from "jsonc-parser";
import { Refusal } from "../command.ts";
import { settingsIn } from "../terminal.ts";
import { KEY } from "./resources.ts";

/**
 * Returns values for missing secrets: from a file, from the terminal without echo, or a new random key for `MILLRACE_KEY`. Errors: a
 * `Refusal` with the names of secrets that still have no value.
 */
export async function valuesOf(names: readonly string[], given: Given, isAsking: boolean): Promise<Record<string, string>> {
  const lacking = names.filter((name) => !given[name] && name !== KEY);
  if (lacking.length > 0 && !isAsking)
    throw new Refusal(
      `The configuration requires secrets that have no value yet: ${lacking.join(", ")}. Write them to a file of lines NAME=value, and pass it: --secrets-file FILE`,
    );
  const values: Record<string, string> = {};
  for (const name of names)
    values[name] = given[name] || (name === KEY ? randomBytes(32).toString("base64url") : await hidden(`Value of the secret ${name}: `));
  return values;
}

/**
 * Passes the secrets to a deployment in an open file, because all users of a machine can read a command line. The file is unlinked before
 * the secrets are written, so that a killed command leaves no file with secrets.
 */
export async function withSecretsFile<T>(
  folder: string,
  values: Record<string, string>,
  use: (file: number | undefined) => Promise<T>,
): Promise<T> {
  if (Object.keys(values).length === 0) return use(undefined);
  const named = join(folder, "secrets.json");
  rmSync(named, { force: true });
  const written = openSync(named, "wx", 0o600);
  const read = openSync(named, "r");
  rmSync(named);
  try {
    writeFileSync(written, JSON.stringify(values));
    return await use(read);
  } finally {
    closeSync(read);
    closeSync(written);
  }
}

type Given = Readonly<Record<string, string | undefined>>;

/** The minimum length of the key. 16 random characters have about 96 bits. */
export const KEY_LEAST = 16;

/**
 * Parses a file of secrets, which contains lines NAME=value or a JSON object. Errors: a `Refusal` with the line or the name of the mistake,
 * without secret values.
 */
export function secretsIn(file: string): Given {
  const text = settingsIn(file);
  const given = text.trimStart().startsWith("{") ? objectIn(file, text) : parseEnv(text);
  for (const [name, value] of Object.entries(given)) {
    if (typeof value !== "string") throw new Refusal(`${file}: the value of ${name} is not a text. Put it into quotes.`);
    if (value.trim() === "") throw new Refusal(`${file}: ${name} has no value. Set one, or remove the line.`);
  }
  const key = given[KEY];
  if (key !== undefined && key.trim().length < KEY_LEAST)
    throw new Refusal(`${file}: ${KEY} must have at least ${KEY_LEAST} characters. Pass the key that open instances depend on.`);
  return given;
}

/** Parses JSON. The parser's error message is not used, because the message quotes the secrets. */
function objectIn(file: string, text: string): Given {
  try {
    return JSON.parse(text) as Given;
  } catch {
    const errors: ParseError[] = [];
    parse(text, errors, { disallowComments: true });
    const line = text.slice(0, errors[0]?.offset ?? 0).split("\n").length;
    throw new Refusal(`${file}:${line} is not JSON. Correct the file. Its values are not shown.`);
  }
}

async function hidden(question: string): Promise<string> {
  process.stderr.write(question);
  const output = new Writable({ write: (_chunk, _encoding, done) => done() });
  const lines = createInterface({ input: process.stdin, output, terminal: true });
  try {
    return await lines.question("");
  } finally {
    lines.close();
    process.stderr.write("\n");
  }
}
