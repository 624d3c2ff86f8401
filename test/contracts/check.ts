import { type Schema, Validator } from "@cfworker/json-schema";

/** A published contract, as JSON schemas that may refer to one another by `#/$defs/Name`. */
export interface Contract {
  /** The source of the schemas, its version, and the omitted parts. */
  source: string;
  $defs: Record<string, object>;
}

/**
 * The errors of a value against a schema of a contract: one sentence each, starting with its place. Empty when it conforms. Draft 2020-12;
 * formats such as `date-time` and `uuid` are checked.
 */
export function conforms(contract: Contract, name: string, value: unknown): string[] {
  if (!contract.$defs[name]) throw new Error(`The contract has no schema named ${name}.`);
  const validator = new Validator({ $defs: contract.$defs, $ref: `#/$defs/${name}` } as Schema, "2020-12", false);
  return validator.validate(value).errors.map(({ instanceLocation, error }) => `${instanceLocation}: ${error}`);
}
