/** A JSON shape as a list of its keys; what is nested opens on demand. */
import { useState } from 'react'
import { Soft } from '../../ui/layout.tsx'
import { Outside } from '../../ui/text.tsx'
import { type ApiDocument, type Schema, typeWords } from './document.ts'
import styles from './reference.module.css'

type Resolve = ApiDocument['resolve']

export function SchemaView({ schema, resolve }: { schema: Schema; resolve: Resolve }) {
  const alternatives = schema.oneOf ?? schema.anyOf ?? schema.allOf
  if (schema.$ref !== undefined) {
    return <SchemaView schema={(resolve(schema.$ref) ?? {}) as Schema} resolve={resolve} />
  }
  if (alternatives !== undefined) {
    return (
      <>
        {alternatives.map((one, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: alternatives have no names
          <div key={index}>
            {schema.allOf === undefined ? <Soft>{index === 0 ? 'Either' : 'or'}</Soft> : null}
            <SchemaView schema={one} resolve={resolve} />
          </div>
        ))}
      </>
    )
  }
  if (schema.type === 'array' && schema.items !== undefined) {
    return (
      <>
        <Soft>{typeWords(schema)}</Soft>
        <SchemaView schema={schema.items} resolve={resolve} />
      </>
    )
  }
  const properties = Object.entries(schema.properties ?? {})
  if (properties.length === 0) return <Soft>{typeWords(schema)}</Soft>
  return (
    <ul className={styles.properties}>
      {properties.map(([name, property]) => (
        <li key={name}>
          <div>
            <code>{name}</code>{' '}
            {schema.required?.includes(name) ? <span className={styles.required}>required</span> : null}{' '}
            <Soft>{typeWords(property)}</Soft>
          </div>
          {property.description === undefined ? null : <Outside text={property.description} />}
          {hasKeys(property, resolve) ? <Nested schema={property} resolve={resolve} /> : null}
        </li>
      ))}
    </ul>
  )
}

function Nested({ schema, resolve }: { schema: Schema; resolve: Resolve }) {
  const [isOpen, setOpen] = useState(false)
  return (
    <details className={styles.nested} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>Keys</summary>
      {isOpen ? <SchemaView schema={schema} resolve={resolve} /> : null}
    </details>
  )
}

function hasKeys(schema: Schema, resolve: Resolve): boolean {
  if (schema.$ref !== undefined) return hasKeys((resolve(schema.$ref) ?? {}) as Schema, resolve)
  if (schema.items !== undefined) return hasKeys(schema.items, resolve)
  const alternatives = schema.oneOf ?? schema.anyOf ?? schema.allOf
  if (alternatives !== undefined) return alternatives.some((one) => hasKeys(one, resolve))
  return schema.properties !== undefined
}
