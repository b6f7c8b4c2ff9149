/**
 * Parses Server-Sent Events from pieces (WHATWG HTML "Interpreting an event stream"). A piece can end anywhere, also
 * between CR and LF or within a character. Incomplete text is bounded, so that a server that never ends a line cannot
 * exhaust memory.
 */

export interface ServerEvent {
  /** `message` if the server sent no name. */
  name: string
  /** Its `data` lines, joined by line breaks. */
  data: string
}

/** The response is not a valid event stream of the daemon. */
export class EventStreamError extends Error {
  override readonly name = 'EventStreamError'
}

/** Four times the largest record of a tail. */
const defaultMaxCharacters = 1024 * 1024

export class EventStreamParser {
  /** For `Last-Event-ID` when the client reconnects. Null: the server sent no id. */
  lastEventId: string | null = null
  readonly #decoder = new TextDecoder()
  readonly #maxCharacters: number
  #line = ''
  #isAfterCarriageReturn = false
  #name = ''
  #data: string[] = []
  #dataCharacters = 0

  /** `maxCharacters` limits a line, and the data of an event. */
  constructor(maxCharacters = defaultMaxCharacters) {
    this.#maxCharacters = maxCharacters
  }

  /** The events that this piece completes. Throws EventStreamError. */
  push(piece: Uint8Array): ServerEvent[] {
    const events: ServerEvent[] = []
    const text = this.#decoder.decode(piece, { stream: true })
    let from = 0
    for (const { 0: lineBreak, index } of text.matchAll(/\r\n|\r|\n/g)) {
      const endsEarlierLine = this.#isAfterCarriageReturn && index === 0 && lineBreak === '\n'
      if (!endsEarlierLine) {
        this.#keep(text.slice(from, index))
        const event = this.#endLine()
        if (event !== null) events.push(event)
      }
      from = index + lineBreak.length
    }
    if (text !== '') this.#isAfterCarriageReturn = text.endsWith('\r')
    this.#keep(text.slice(from))
    return events
  }

  #keep(part: string): void {
    if (this.#line.length + part.length > this.#maxCharacters)
      throw new EventStreamError(`a line is longer than ${this.#maxCharacters} characters`)
    this.#line += part
  }

  #endLine(): ServerEvent | null {
    const line = this.#line
    this.#line = ''
    if (line === '') return this.#endEvent()
    const [, field = '', value = ''] = /^([^:]*):? ?(.*)$/s.exec(line) ?? []
    if (field === 'event') this.#name = value
    // A header cannot contain other ids. Those of the daemon are digits and a dot.
    else if (field === 'id' && /^[\x21-\x7e]{1,100}$/.test(value)) this.lastEventId = value
    else if (field === 'data') this.#keepData(value)
    return null
  }

  #keepData(value: string): void {
    this.#dataCharacters += value.length + 1
    if (this.#dataCharacters > this.#maxCharacters + 1)
      throw new EventStreamError(`the data of an event is longer than ${this.#maxCharacters} characters`)
    this.#data.push(value)
  }

  #endEvent(): ServerEvent | null {
    const event = { name: this.#name === '' ? 'message' : this.#name, data: this.#data.join('\n') }
    const hasData = this.#data.length > 0
    this.#name = ''
    this.#data = []
    this.#dataCharacters = 0
    return hasData ? event : null
  }
}
