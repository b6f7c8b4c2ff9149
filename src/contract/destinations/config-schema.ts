/** Builds the schema of a config from the table of its fields. Validation and the OpenAPI document use it. */
import Type from 'typebox'
import { closed, nullable } from '../schema-parts.ts'
import { type ConfigField, type ConfigFields, offeredOptions } from './config-field.ts'

export function configSchemaOf(fields: ConfigFields): Type.TObject {
  return Type.Object(
    Object.fromEntries(Object.entries(fields).map(([key, field]) => [key, fieldSchema(field)])),
    closed,
  )
}

function fieldSchema(field: ConfigField): Type.TSchema {
  const value = valueSchema(field, described(field))
  const given = field.nullable ? nullable(value) : value
  return field.needed ? given : Type.Optional(given)
}

function described(field: ConfigField): Type.TSchemaOptions {
  const { default: fallback, hint, usual } = field
  const explained = offeredOptions(field).filter(([value, label]) => value !== label)
  const texts = [
    ...(hint === undefined ? [] : [hint]),
    ...(explained.length === 0
      ? []
      : [`${explained.map(([value, label]) => `${value}: ${label}`).join('; ')}.`]),
    ...(usual === undefined ? [] : [`Default: ${usual}.`]),
  ]
  return {
    ...(fallback === undefined ? {} : { default: fallback }),
    ...(texts.length === 0 ? {} : { description: texts.join(' ') }),
  }
}

function valueSchema(field: ConfigField, description: Type.TSchemaOptions): Type.TSchema {
  switch (field.kind) {
    case 'text':
      return textSchema(field.maxLength, field.empty, {
        ...(field.pattern === undefined ? {} : { pattern: field.pattern }),
        ...description,
      })
    case 'choice':
      return Type.Enum(Object.keys(field.options), description)
    case 'integer':
      return Type.Integer({ minimum: field.minimum, maximum: field.maximum, ...description })
    case 'port':
      return Type.Union(
        [Type.Integer({ minimum: 1, maximum: 65535 }), Type.String({ pattern: '^[0-9]{1,5}$' })],
        description,
      )
    case 'boolean':
      return Type.Boolean(description)
    case 'map':
      return Type.Record(Type.String(), textSchema(field.maxLength, field.empty), {
        maxProperties: field.maxProperties,
        ...description,
      })
  }
}

function textSchema(maxLength: number, empty: ConfigField['empty'], options: object = {}): Type.TString {
  return Type.String({ ...(empty === undefined ? { minLength: 1 } : {}), maxLength, ...options })
}
