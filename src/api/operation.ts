import { operationIn } from "millrace/http";
import type { ApiEnv } from "./env.ts";
import type { PROBLEMS } from "./problems.ts";

export const operation = operationIn<ApiEnv, keyof typeof PROBLEMS>();
