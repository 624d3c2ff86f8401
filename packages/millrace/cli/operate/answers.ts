import type { EngineApi } from "../../src/http/engine-routes.ts";
import type { Output } from "../api-client.ts";

export type Accepted = Output<EngineApi, "/v1/commands", "$post">;
export type Checked = Output<EngineApi, "/v1/catalog/check", "$post">;
export type InstancePage = Output<EngineApi, "/v1/instances", "$get">;
export type Instance = InstancePage["items"][number];
export type InstanceDetail = Output<EngineApi, "/v1/instances/:id", "$get">;
export type StepList = Output<EngineApi, "/v1/instances/:id/steps", "$get">;
export type RetryAnswer = Output<EngineApi, "/v1/instances/:id/retry", "$post">;
export type Letter = Output<EngineApi, "/v1/dead-letters/:id", "$get">;
export type ReplayAnswer = Output<EngineApi, "/v1/dead-letters/:id/replay", "$post">;
