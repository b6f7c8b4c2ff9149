/** Proposes a schema from the newest records of the pipe. The proposal replaces the text of the form, which can be undone. */
import { useState } from 'react'
import type { SuccessBody } from '../../../../contract/operations.ts'
import type { Pipe } from '../../../../contract/pipe.ts'
import { counted } from '../../../../platform/quantities.ts'
import { command } from '../../../client/cli-twin.ts'
import { api, change } from '../../data/api.ts'
import { useMayChange } from '../../data/session-context.ts'
import { Button, formStyles } from '../../ui/controls.tsx'
import { FailureNotice } from '../../ui/failure.tsx'
import { Check, Choice } from '../../ui/fields.tsx'
import { Fold } from '../../ui/fold.tsx'
import { CliTwin, Section, Soft } from '../../ui/layout.tsx'
import { Outside } from '../../ui/text.tsx'
import { textOf } from './draft.ts'

type Body = SuccessBody<'inferSchema'>

const counts = ['1000', '10000', '100000'] as const

interface Options {
  records: (typeof counts)[number]
  enums: boolean
  formats: boolean
  isOpen: boolean
}

interface Props {
  pipe: Pipe
  /** The text of the form is not stored yet. */
  isChanged: boolean
  onSchema: (text: string) => void
}

export function Proposal({ pipe, isChanged, onSchema }: Props) {
  const mayChange = useMayChange()
  const [options, setOptions] = useState<Options>({
    records: '10000',
    enums: true,
    formats: true,
    isOpen: true,
  })
  const [proposal, setProposal] = useState<Body | null>(null)
  const [failure, setFailure] = useState<unknown>(null)
  const [isReading, setReading] = useState(false)
  const propose = async () => {
    if (isReading) return
    setReading(true)
    setFailure(null)
    try {
      const { body } = await change(() =>
        api.call('inferSchema', { path: { pipe_id: pipe.pipe_id }, body: bodyOf(options) }),
      )
      setProposal(body)
      if (body.records_seen > 0) onSchema(textOf(body.schema))
    } catch (error) {
      setFailure(error)
    } finally {
      setReading(false)
    }
  }
  if (!mayChange) return null
  return (
    <Section title="Propose from records">
      <ProposalOptions options={options} onChange={(next) => setOptions({ ...options, ...next })} />
      <div className={formStyles.actions}>
        {/* Not disabled while it reads, because it would lose the focus. */}
        <Button onClick={() => void propose()}>
          {isReading ? 'Reading …' : isChanged ? 'Replace by a proposal' : 'Propose a schema'}
        </Button>
      </div>
      <FailureNotice failure={failure} />
      <div role="status">
        <Soft>{proposal === null ? 'It accepts every record that was read.' : resultOf(proposal)}</Soft>
      </div>
      <Notes proposal={proposal} />
      <CliTwin command={twinOf(pipe, options)} />
    </Section>
  )
}

function Notes({ proposal }: { proposal: Body | null }) {
  if (proposal === null || proposal.notes.length === 0) return null
  return (
    <ul aria-label="Notes on the proposal">
      {proposal.notes.map((note) => (
        <li key={note}>
          <Outside text={note} />
        </li>
      ))}
    </ul>
  )
}

function ProposalOptions({
  options,
  onChange,
}: {
  options: Options
  onChange: (next: Partial<Options>) => void
}) {
  return (
    <Fold title="Options" isNeeded={false}>
      <Choice
        label="Newest records"
        value={options.records}
        options={counts.map((value) => [value, Number(value).toLocaleString('en')] as const)}
        onValue={(records) => onChange({ records })}
      />
      <Check
        label="Enums"
        hint="For texts with few values that occur often."
        checked={options.enums}
        onValue={(enums) => onChange({ enums })}
      />
      <Check
        label="Formats"
        hint="Times, dates, UUIDs, addresses."
        checked={options.formats}
        onValue={(formats) => onChange({ formats })}
      />
      <Check
        label="Accept further keys"
        hint="Otherwise a key that was not seen yet is an error."
        checked={options.isOpen}
        onValue={(isOpen) => onChange({ isOpen })}
      />
    </Fold>
  )
}

function bodyOf({ records, enums, formats, isOpen }: Options) {
  return { records: Number(records), enums, formats, additional_properties: isOpen }
}

function resultOf({ records_seen }: Body): string {
  if (records_seen === 0) return 'The pipe has no records yet: send some first.'
  return `Proposed from ${counted(records_seen, 'record')}. Read it, then save it.`
}

function twinOf({ pipe_name }: Pipe, { records, enums, formats, isOpen }: Options): string {
  return command(
    ...['pipes', 'schema', 'infer', pipe_name, '--records', records],
    ...(enums ? [] : ['--no-enums']),
    ...(formats ? [] : ['--no-formats']),
    ...(isOpen ? [] : ['--additional-properties', 'false']),
  )
}
