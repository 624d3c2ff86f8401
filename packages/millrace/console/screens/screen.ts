import type { ComponentType } from "preact";

export interface Screen {
  name: string;
  /** The path of the screen after `/console/`. The start page has the path "". */
  path: string;
  title: string;
  component: ComponentType<ScreenProps>;
  /** The key after `g` that opens the screen. */
  key?: string;
  /** True if the screen's path is followed by an id. */
  takesName?: boolean;
  /** The screen whose navigation entry is marked as current while this screen is open. Default: this screen has its own entry. */
  under?: string;
}

export interface ScreenProps {
  /** The id in the path of the screen. Without an id, the value is "". */
  param: string;
}
