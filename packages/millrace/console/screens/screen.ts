import type { ComponentType } from "preact";

export interface Screen {
  /** The path of the screen after `/console/`. The start page has the path "". */
  path: string;
  title: string;
  component: ComponentType<ScreenProps>;
  /** The key after `g` that opens the screen. */
  key?: string;
  /** The screen of one item. The item's id follows the path. Default: this screen gets the id. */
  item?: { title: string; component: ComponentType<ScreenProps> };
  /** The path of the screen with the navigation entry for this screen. Default: this screen has its own entry. */
  under?: string;
}

export interface ScreenProps {
  /** The id in the path of the screen. Without an id, the value is "". */
  param: string;
}
