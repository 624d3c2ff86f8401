import type { ComponentType } from "preact";

export interface Screen {
  name: string;
  /** The path of the screen after `/console/`. The start page has the path "". */
  path: string;
  title: string;
  component: ComponentType<ScreenProps>;
  key?: string;
  isInNavigation?: boolean;
  /** True if the screen's path is followed by an id. */
  takesName?: boolean;
  /** The navigation entry that is marked as current while this screen is open. Default: the entry of this screen. */
  under?: string;
}

export interface ScreenProps {
  /** The id in the path of the screen. Without an id, the value is "". */
  param: string;
}
