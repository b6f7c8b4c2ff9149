/** A button that copies a text and confirms it for two seconds. */
import { useEffect, useState } from 'react'
import { Button } from './controls.tsx'

const shownMs = 2_000

/** `isSmall`: a sign instead of the label, for a row of a table. The text can then be copied elsewhere with the keyboard. */
export function Copy({
  text,
  what,
  label = 'Copy',
  isSmall = false,
}: {
  text: string
  what: string
  label?: string
  isSmall?: boolean
}) {
  const [outcome, setOutcome] = useState<'copied' | 'failed' | null>(null)
  useEffect(() => {
    if (outcome === null) return
    const timer = setTimeout(() => setOutcome(null), shownMs)
    return () => clearTimeout(timer)
  }, [outcome])
  const words = { copied: 'Copied', failed: 'Copying failed: select the text' }
  return (
    <Button
      look="plain"
      aria-label={outcome === null ? `${label}: ${what}` : undefined}
      title={isSmall ? `${label}: ${what}` : undefined}
      tabIndex={isSmall ? -1 : undefined}
      onClick={() =>
        copyText(text).then(
          () => setOutcome('copied'),
          () => setOutcome('failed'),
        )
      }
    >
      <span aria-live="polite">{outcome === null ? isSmall ? <CopyIcon /> : label : words[outcome]}</span>
    </Button>
  )
}

function CopyIcon() {
  return (
    <svg width="14" height="14" viewBox="0 0 16 16" fill="none" stroke="currentColor" aria-hidden="true">
      <rect x="5.5" y="5.5" width="8" height="8" rx="1.5" />
      <path d="M3.5 10.5h-1v-8h8v1" />
    </svg>
  )
}

/** On plain http, browsers have a clipboard only on loopback. Elsewhere the deprecated command is used. */
async function copyText(text: string): Promise<void> {
  if (navigator.clipboard !== undefined) return navigator.clipboard.writeText(text)
  const area = document.createElement('textarea')
  area.value = text
  area.setAttribute('aria-hidden', 'true')
  document.body.append(area)
  area.select()
  const isDone = document.execCommand('copy')
  area.remove()
  if (!isDone) throw new Error('the browser does not let a page copy')
}
