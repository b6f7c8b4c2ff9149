/** A page of named lines that are wrapped. What does not fit on the screen is reached with PgDn and PgUp. */
import { Box, Text } from 'ink'
import { useRef, useState } from 'react'
import { counted } from '../../platform/quantities.ts'
import { printable } from '../client/printable.ts'
import { wrap } from '../client/terminal-text.ts'
import type { KeyPress } from './use-keys.ts'

export type NamedLine = readonly [name: string, value: string, colour?: string]

export interface Scroll {
  /** The first line that the user wants to see. It can be beyond the last one. */
  from: number
  /** True if the key scrolls. */
  onKey(pressed: KeyPress): boolean
  /** Called while the page is drawn, with the largest useful `from`. */
  limit(last: number): void
}

const scrolledLines = 8

/** `page` identifies the content. Another one starts at its first line. Null: the page does not scroll. */
export function useScroll(page: string | null): Scroll {
  const [position, setPosition] = useState({ page, from: 0 })
  const last = useRef(0)
  // React draws again at once, before anything is shown.
  if (position.page !== page) setPosition({ page, from: 0 })
  const from = position.page === page ? position.from : 0
  return {
    from,
    limit: (value) => {
      last.current = value
    },
    onKey(pressed) {
      if (page === null || (pressed !== 'pageDown' && pressed !== 'pageUp')) return false
      const wanted = Math.min(from, last.current) + (pressed === 'pageDown' ? scrolledLines : -scrolledLines)
      setPosition({ page, from: Math.max(0, Math.min(last.current, wanted)) })
      return true
    },
  }
}

/** Longer values are cut: a record can have a megabyte, and the screen is drawn every second. */
const longestValue = 2_000

export interface PageProps {
  lines: readonly NamedLine[]
  nameWidth: number
  width: number
  height: number
  scroll: Scroll
}

export function Page({ lines, nameWidth, width, height, scroll }: PageProps) {
  const all = lines.flatMap((line) => wrapped(line, Math.max(8, width - nameWidth)))
  const hasMore = all.length > height
  const body = hasMore ? Math.max(1, height - 1) : height
  const last = Math.max(0, all.length - body)
  scroll.limit(last)
  const from = Math.min(scroll.from, last)
  const below = all.length - from - body
  return (
    <Box flexDirection="column" height={height} overflow="hidden">
      {all.slice(from, from + body).map(([name, value, colour], index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the lines have no identity but their place
        <Text key={index} wrap="truncate">
          <Text dimColor>{name.padEnd(nameWidth)}</Text>
          <Text color={colour}>{value}</Text>
        </Text>
      ))}
      {hasMore ? (
        <Text color="yellow">
          {below > 0 ? `▼ ${counted(below, 'more line')}: PgDn` : '▲ the end; PgUp goes back'}
        </Text>
      ) : null}
    </Box>
  )
}

function wrapped([name, value, colour]: NamedLine, width: number): NamedLine[] {
  const text = printable(value.length > longestValue ? `${value.slice(0, longestValue)}…` : value)
  return wrap(text, width).map((part, at) => [at === 0 ? name : '', part, colour])
}
