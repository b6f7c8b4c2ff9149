/** The pages of the navigation, with the key that opens some of them after `g`. */
export const otherPages = [
  ['/lanes', 'Lanes', 'l'],
  ['/keys', 'API keys', 'k'],
  ['/users', 'Users', 'u'],
  ['/audit', 'Audit', 'a'],
  ['/privacy', 'Personal data', ''],
  ['/alerts', 'Alerts', ''],
  ['/service', 'Service', 's'],
  ['/reference', 'API reference', 'r'],
] as const

export const allPages = [
  ['/', 'Overview', 'o'],
  ['/pipes', 'Pipes', 'p'],
  ['/messages', 'Messages', 'm'],
  ...otherPages,
] as const

/** Opens the command palette, and names its keys on this computer. */
export const paletteKeys = /Mac|iPhone|iPad/.test(navigator.platform) ? '⌘ K' : 'Ctrl K'
export const paletteEvent = 'pipectl:palette'
