/**
 * Text of others (error messages of destinations, descriptions, records) made harmless for a terminal: control
 * characters, which could move the cursor or retitle the window, and those that turn the direction of text around become
 * visible.
 */
export function printable(text: string): string {
  return text.replace(
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
    /[\u0000-\u001f\u007f-\u009f\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g,
    (character) => (character === '\n' || character === '\t' ? ' ' : '\u{fffd}'),
  )
}

/** The same of text that has lines of its own. */
export function printableLines(text: string): string {
  return text.split('\n').map(printable).join('\n')
}

/** Characters that JSON text can hold unescaped. */
const unescaped = /[\u007f-\u009f\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g

/** The same of JSON text, which stays the JSON that it is: they are written as escapes. */
export function printableJson(text: string): string {
  return text.replace(unescaped, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

/** Whether `printableJson` would change it. */
export function actsOnTerminal(text: string): boolean {
  return text.search(unescaped) !== -1
}

/**
 * The same for a page, where there is room to show which character it was: control characters as their symbols, those of
 * direction as escapes. Line breaks stay where `keepLines` is true.
 */
export function visible(text: string, keepLines = false): string {
  return text.replace(
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
    /[\u0000-\u001f\u007f-\u009f\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g,
    (character) => {
      const code = character.charCodeAt(0)
      if (keepLines && code === 10) return character
      if (code < 32) return String.fromCharCode(0x2400 + code)
      return code === 127 ? '\u2421' : `\\u${code.toString(16).padStart(4, '0')}`
    },
  )
}
