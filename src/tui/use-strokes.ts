/**
 * Keys one at a time. Quick typing and pasting arrive as one piece of input; each stroke of it must see the state that
 * the one before left, so they are handled one after the other, each after the screen has caught up.
 */
import { type Key, useInput } from 'ink'
import { useEffect, useRef } from 'react'

/** A character, or the name of a key. */
export type Stroke = string

export function useStrokes(onStroke: (stroke: Stroke) => void): void {
  const handler = useRef(onStroke)
  const waiting = useRef<Stroke[]>([])
  const timer = useRef<NodeJS.Timeout | undefined>(undefined)
  // After every drawing: the handler of the newest state.
  useEffect(() => {
    handler.current = onStroke
  })
  useEffect(() => () => clearTimeout(timer.current), [])

  const next = () => {
    timer.current = undefined
    const stroke = waiting.current.shift()
    if (stroke === undefined) return
    handler.current(stroke)
    if (waiting.current.length > 0) timer.current = setTimeout(next, 1)
  }
  useInput((input, key) => {
    waiting.current.push(...strokesOf(input, key))
    if (timer.current === undefined) next()
  })
}

export function strokesOf(input: string, key: Partial<Key>): Stroke[] {
  if (key.ctrl || key.meta) return key.escape ? ['escape'] : []
  if (key.escape) return ['escape']
  if (key.return) return ['return']
  if (key.backspace || key.delete) return ['erase']
  if (key.upArrow) return ['up']
  if (key.downArrow) return ['down']
  if (key.leftArrow) return ['left']
  if (key.rightArrow) return ['right']
  if (key.pageUp) return ['pageUp']
  if (key.pageDown) return ['pageDown']
  return [...input].flatMap((character) => {
    if (character === '\r' || character === '\n') return ['return']
    if (character === '\x1b') return ['escape']
    if (character === '\x7f' || character === '\b') return ['erase']
    return character < ' ' ? [] : [character]
  })
}
