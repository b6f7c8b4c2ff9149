/** Where records go: a connection string or separate fields, the table, and settings that are rarely needed. */
import { type DestinationType, wordsOf } from '../../../../contract/destination-words.ts'
import type { FieldErrors } from '../../ui/failure.tsx'
import { TextField } from '../../ui/fields.tsx'
import { Fold } from '../../ui/fold.tsx'
import { Outside } from '../../ui/text.tsx'
import { ConfigFields, errorOf, pastedText } from './config-field.tsx'
import styles from './connect.module.css'
import { type Connection, useConnection } from './connection.ts'
import type { DestinationDraft } from './draft.ts'
import { type FormField, formFields, isChanged, type Texts } from './fields.ts'

interface Props {
  draft: DestinationDraft
  errors: FieldErrors
  isStored: boolean
  onChange: (next: Partial<DestinationDraft>) => void
}

export function Connect({ draft, errors, isStored, onChange }: Props) {
  const { type, config } = draft
  const connection = useConnection(draft, (next) => onChange({ config: next }), isStored)
  const all = formFields(type)
  const at = (place: FormField['place']) => all.filter((one) => one.place === place)
  const show = (fields: readonly FormField[]) => (
    <ConfigFields
      fields={fields}
      config={config}
      errors={errors}
      isStored={isStored}
      connection={connection}
      onConfig={(next) => onChange({ config: next })}
    />
  )
  const [address, more] = [at('address'), at('advanced')]
  const isWrong = (fields: readonly FormField[]) =>
    fields.some(({ key }) => errorOf(errors, key) !== undefined)
  const isEmpty = address.every((one) => !isChanged(one, config))
  return (
    <>
      {address.length === 0 ? null : (
        <>
          <ConnectionString
            type={type}
            connection={connection}
            isStored={isStored}
            isMissing={isEmpty && isWrong(address)}
          />
          <Fold
            title="Separate fields"
            about={<AddressText fields={address} config={config} isEmpty={isEmpty} />}
            isNeeded={isWrong(address)}
          >
            {show(address)}
          </Fold>
        </>
      )}
      {show(at('connect'))}
      {address.length === 0 ? <ReadNote connection={connection} /> : null}
      {more.length === 0 ? null : (
        <Fold
          title="Advanced"
          about={more.map(({ label }) => label).join(' · ')}
          isNeeded={isWrong(more) || more.some((one) => isChanged(one, config))}
        >
          {show(more)}
        </Fold>
      )}
    </>
  )
}

function ConnectionString({
  type,
  connection,
  isStored,
  isMissing,
}: {
  type: DestinationType
  connection: Connection
  isStored: boolean
  isMissing: boolean
}) {
  const { text, error, note, isConcealed, read } = connection
  const example = wordsOf(type).url?.field?.example
  const missing = isMissing ? 'Paste a connection string, or fill in the separate fields.' : undefined
  return (
    <div>
      <TextField
        label="Connection string"
        mono
        optional={isStored}
        placeholder={example}
        value={text}
        isConcealed={isConcealed}
        onValue={connection.type}
        onPaste={(event) => {
          const pasted = pastedText(event)
          // A piece of a string that is being typed.
          if (text !== '' && !pasted.includes(':')) return
          event.preventDefault()
          read(pasted)
        }}
        onBlur={connection.finish}
        onKeyDown={(event) => {
          if (event.key === 'Enter') connection.finish()
        }}
        hint={
          isStored
            ? 'Replaces the separate fields. The password is not shown.'
            : 'Paste it as your database service shows it. The password is not shown.'
        }
        error={error ?? missing}
      />
      <div role="status" className={styles.note}>
        {note === undefined ? null : <Outside text={note} />}
      </div>
    </div>
  )
}

/** For types without a field for the string: what came of one that was pasted into another field. */
function ReadNote({ connection: { note, error } }: { connection: Connection }) {
  return (
    <div role="status" className={error === undefined ? styles.note : styles.bad}>
      {note === undefined && error === undefined ? null : <Outside text={error ?? note ?? ''} />}
    </div>
  )
}

/** The values of the folded fields in one line, without secrets. */
function AddressText({
  fields,
  config,
  isEmpty,
}: {
  fields: readonly FormField[]
  config: Texts
  isEmpty: boolean
}) {
  if (isEmpty) return fields.map(({ label }) => label).join(' · ')
  const words = fields.flatMap(({ key, kind, label, options }) => {
    const text = config[key] ?? ''
    if (text === '') return []
    if (kind === 'secret') return [`${label.toLowerCase()} set`]
    return [options.find(([value]) => value === text)?.[1] ?? text]
  })
  return <Outside text={words.join(' · ')} />
}
