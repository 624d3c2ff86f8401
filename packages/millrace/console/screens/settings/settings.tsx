import type { ComponentType } from "preact";
import { Pages } from "../../parts/page.tsx";
import type { ScreenProps } from "../screen.ts";
import { Limits } from "./limits.tsx";
import { Locks } from "./locks.tsx";
import { Schedules } from "./schedules.tsx";
import "./settings.css";
import { Tokens } from "./tokens.tsx";

const PAGES: Readonly<Record<string, readonly [title: string, page: ComponentType]>> = {
  schedules: ["Schedules", Schedules],
  locks: ["Locks", Locks],
  limits: ["Limits", Limits],
  tokens: ["Tokens", Tokens],
};

export function Settings({ param }: ScreenProps) {
  return <Pages screen="settings" title="Settings" pages={PAGES} at={param} />;
}
