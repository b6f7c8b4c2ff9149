/** Bytes of JSON tokens. */
export const quote: u8 = 0x22
export const backslash: u8 = 0x5c
export const comma: u8 = 0x2c
export const colon: u8 = 0x3a
export const openBrace: u8 = 0x7b
export const closeBrace: u8 = 0x7d
export const openBracket: u8 = 0x5b
export const closeBracket: u8 = 0x5d
export const minus: u8 = 0x2d
export const plus: u8 = 0x2b
export const dot: u8 = 0x2e
export const zero: u8 = 0x30
export const nine: u8 = 0x39
export const letterF: u8 = 0x66
export const letterT: u8 = 0x74
export const space: u8 = 0x20
export const tab: u8 = 0x09
export const lineFeed: u8 = 0x0a
export const carriageReturn: u8 = 0x0d

/** The result of a function that finds no valid token. No text begins at address 0. */
export const invalid: usize = 0
