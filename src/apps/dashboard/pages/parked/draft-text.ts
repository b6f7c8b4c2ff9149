/** The text of parked records while a user edits it. It stays while the page is open, whatever the result of a replay. */
import { useState } from 'react'
import { checkRecords, type JsonFault } from '../../../client/json-check.ts'
import { editableText, recordTextsOf } from '../../../client/parked.ts'

export interface DraftText {
  /** The stored records, as text for editing. */
  stored: string
  shown: string
  fault: JsonFault | null
  /** The typed records, in the form of `stored`. Null: the text is not valid. */
  edited: { texts: readonly string[]; text: string } | null
  isChanged: boolean
  /** False: the shown text is the stored one, to the character. */
  isTyped: boolean
  onValue: (text: string) => void
  restore: () => void
}

/** `response`: the original text of the response, in which numbers keep all digits. */
export function useDraftText(response: string, recordsCount: number): DraftText {
  const [typed, setTyped] = useState<string | null>(null)
  const stored = editableText(recordTextsOf(response))
  const shown = typed ?? stored
  const { records, fault } = checkRecords(shown, recordsCount)
  const edited = records === null ? null : { texts: records, text: editableText(records) }
  return {
    stored,
    shown,
    fault,
    edited,
    isChanged: edited?.text !== stored,
    isTyped: shown !== stored,
    onValue: setTyped,
    restore: () => setTyped(null),
  }
}
