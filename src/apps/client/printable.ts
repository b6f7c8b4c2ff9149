/**
 * Makes foreign text (errors of destinations, descriptions, records) safe for a terminal. Control characters, which
 * could move the cursor or change the title, and characters that reverse the text direction become visible.
 */
export function printable(text: string): string {
  return text.replace(
    // biome-ignore lint/suspicious/noControlCharactersInRegex: the function removes them
    /[\u0000-\u001f\u007f-\u009f\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g,
    (character) => (character === '\n' || character === '\t' ? ' ' : '\u{fffd}'),
  )
}

/** The same for text with several lines. */
export function printableLines(text: string): string {
  return text.split('\n').map(printable).join('\n')
}

/** Such characters that JSON text can contain without escapes. */
const unescaped = /[\u007f-\u009f\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g

/** The same for JSON text: the characters become JSON escapes, so its value does not change. */
export function printableJson(text: string): string {
  return text.replace(unescaped, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

/** True if `printableJson` would change the text. */
export function actsOnTerminal(text: string): boolean {
  return text.search(unescaped) !== -1
}

/**
 * The same for a web page: control characters become symbols, direction characters become escapes. Line breaks stay
 * if `keepLines` is true.
 */
export function visible(text: string, keepLines = false): string {
  return text.replace(
    // biome-ignore lint/suspicious/noControlCharactersInRegex: the function removes them
    /[\u0000-\u001f\u007f-\u009f\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g,
    (character) => {
      const code = character.charCodeAt(0)
      if (keepLines && code === 10) return character
      if (code < 32) return String.fromCharCode(0x2400 + code)
      return code === 127 ? '\u2421' : `\\u${code.toString(16).padStart(4, '0')}`
    },
  )
}
