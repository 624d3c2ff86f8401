import { setTimeout as sleep } from "node:timers/promises";
import { type ParseError, parse, printParseErrorCode } from "jsonc-parser";
import { parse as parseToml, TomlError } from "smol-toml";
import { Refusal } from "../command.ts";
import { shown } from "../local/wrangler.ts";
import { settingsIn } from "../terminal.ts";

/** A queue consumer in the configuration. If a number is missing, the platform's default applies. */
export interface ConfiguredConsumer {
  queue: string;
  max_batch_size?: number;
  max_batch_timeout?: number;
  max_retries?: number;
  max_concurrency?: number;
  dead_letter_queue?: string;
}

export interface D1 {
  binding: string;
  database_name?: string;
  database_id?: string;
  preview_database_id?: string;
  migrations_dir?: string;
  migrations_pattern?: string;
  migrations_table?: string;
}

/** The fields of a configuration that the commands read. All other fields are passed to wrangler unchanged. */
export interface Config {
  main?: string;
  vars?: Record<string, unknown>;
  define?: Record<string, string>;
  build?: object;
  triggers?: { crons?: string[] };
  alias?: Record<string, string>;
  assets?: { directory?: string; [other: string]: unknown };
  workflows?: { binding: string; name: string; class_name: string; script_name?: string }[];
  queues?: {
    producers?: { binding: string; queue: string }[];
    consumers?: ConfiguredConsumer[];
  };
  exports?: Record<string, { type: string; name?: string; storage?: string }>;
  durable_objects?: { bindings?: { name: string; class_name: string; script_name?: string }[] };
  d1_databases?: D1[];
  r2_buckets?: { binding: string; bucket_name?: string }[];
  secrets?: { required?: string[] };
  services?: { binding: string; service: string; entrypoint?: string }[];
  migrations?: { new_sqlite_classes?: string[] }[];
  env?: Record<string, Config>;
  name?: string;
  [other: string]: unknown;
}

/** How long an incomplete file is read again and again, because some editors empty a file before they save it. */
const WRITTEN_WITHIN_MS = 2000;
const READ_EVERY_MS = 100;

/** The error for a configuration file that ends before its text is complete. */
class CutShort extends Refusal {}

/** Like `readConfig`, for a file that an editor may be writing. */
export async function readSavedConfig(file: string, withinMs = WRITTEN_WITHIN_MS): Promise<Config> {
  for (const until = Date.now() + withinMs; ; await sleep(READ_EVERY_MS)) {
    try {
      return readConfig(file);
    } catch (error) {
      if (!(error instanceof CutShort) || Date.now() >= until) throw error;
    }
  }
}

export const formatOf = (file: string) => (file.endsWith(".toml") ? "toml" : "jsonc");

/** Reads a configuration in JSON with comments, or in TOML. Errors: a `Refusal` with the line number of the first mistake. */
export const readConfig = (file: string): Config => configIn(file, settingsIn(file));

/** Parses the text of a configuration. Errors: the errors of `readConfig`. */
export function configIn(file: string, text: string): Config {
  const wrong = (what: string, line: number, isCut: boolean) =>
    new (isCut ? CutShort : Refusal)(`${shown(file)}:${line} is not ${what} Look there, or at the line before.`);
  const lines = text.trimEnd().split("\n").length;
  if (formatOf(file) === "toml") {
    if (text.trim() === "") throw wrong("TOML: it is empty.", 1, true);
    try {
      return parseToml(text) as Config;
    } catch (error) {
      if (!(error instanceof TomlError)) throw error;
      const [says = ""] = error.message.replace("Invalid TOML document: ", "").split("\n");
      throw wrong(`TOML: ${says}.`, error.line, error.line >= lines);
    }
  }
  const errors: ParseError[] = [];
  const config: Config = parse(text, errors, { allowTrailingComma: true });
  const [first] = errors;
  if (first === undefined) return config;
  const says = printParseErrorCode(first.error).replaceAll(/(?<=.)[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
  const isCut = says.startsWith("Unexpected end") || first.offset >= text.trimEnd().length;
  throw wrong(`JSON: ${says}.`, text.slice(0, first.offset).split("\n").length, isCut);
}

/** Fields that wrangler's environments do not inherit from the top level. */
const NOT_INHERITED = [
  ...["vars", "define", "secrets", "durable_objects", "workflows", "queues", "d1_databases", "r2_buckets", "kv_namespaces", "services"],
  ...["ratelimits", "analytics_engine_datasets", "ai", "browser", "images", "media", "vectorize", "hyperdrive", "send_email", "pipelines"],
  ...["secrets_store_secrets", "dispatch_namespaces", "mtls_certificates", "tail_consumers", "version_metadata", "vpc_services"],
];

/** The configuration of an environment. Undefined if the configuration does not have this environment. */
export function configOf(config: Config, env: string | undefined): Config | undefined {
  if (env === undefined) return config;
  const own = config.env?.[env];
  if (own === undefined) return undefined;
  const shared = Object.fromEntries(Object.entries(config).filter(([key]) => key !== "env" && !NOT_INHERITED.includes(key)));
  return { ...shared, name: `${config.name}-${env}`, ...own };
}
