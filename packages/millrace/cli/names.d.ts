import type { Operation } from "./operate/operations.ts";

export declare const COMMANDS: Readonly<Record<string, string>>;
export declare const OPERATIONS: readonly Operation[];
export declare function nounLines(): Record<string, string>;
