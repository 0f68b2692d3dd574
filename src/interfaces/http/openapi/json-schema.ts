/**
 * Converts the valibot schemas that validate requests to JSON Schema. No constraint is dropped silently: the converter throws
 * for whatever it does not know, and a check that it cannot convert must be followed by metadata, or a description, that says
 * the same.
 */
import { isDeepStrictEqual } from 'node:util';
import { type ConversionConfig, toJsonSchema } from '@valibot/to-json-schema';
import type { GenericSchema } from 'valibot';

export type JsonSchema = Readonly<Record<string, unknown>>;

/** Keywords whose values are data, whatever they look like. */
const DATA = new Set(['const', 'default', 'enum', 'examples']);

export interface SchemaSet {
  /** The schemas with a title, by title. Complete once everything has been added. */
  readonly named: Record<string, JsonSchema>;
  /** Converts a schema. Each schema in it that has a title (`v.title`) becomes a reference. */
  add(schema: GenericSchema): JsonSchema;
}

export function schemaSet(): SchemaSet {
  const named: Record<string, JsonSchema> = {};

  function withReferences(value: unknown): unknown {
    if (Array.isArray(value)) return value.map(withReferences);
    if (typeof value !== 'object' || value === null) return value;
    const entries = Object.entries(value).map(([key, part]) => [key, DATA.has(key) ? part : withReferences(part)]);
    const { title, ...schema } = Object.fromEntries(entries) as Record<string, unknown>;
    if (typeof title !== 'string') return title === undefined ? schema : { ...schema, title };
    const known = (named[title] ??= schema);
    if (!isDeepStrictEqual(known, schema)) throw new Error(`two schemas have the title ${title}`);
    return { $ref: `#/components/schemas/${title}` };
  }

  return { named, add: (schema) => withReferences(convert(schema)) as JsonSchema };
}

function convert(schema: GenericSchema): JsonSchema {
  const checks = explainedChecks();
  const { $schema: _, ...converted } = toJsonSchema(schema, {
    target: 'draft-2020-12',
    typeMode: 'input',
    errorMode: 'throw',
    // Concerns TypeScript only.
    ignoreActions: ['readonly'],
    overrideSchema: ({ valibotSchema, jsonSchema }) => {
      checks.follow(valibotSchema);
      // Later versions of berth answer with more fields, and generated clients must accept them.
      if (valibotSchema.type === 'strict_object') return without(jsonSchema, 'additionalProperties');
      if (valibotSchema.type === 'loose_object') return { ...jsonSchema, additionalProperties: true };
      if (valibotSchema.type === 'optional' && isNullable(jsonSchema)) return without(jsonSchema, 'default');
      if (valibotSchema.type === 'custom') return jsonSchema;
      return valibotSchema.type === 'nullable' ? orNull(jsonSchema) : undefined;
    },
    overrideAction: ({ valibotAction, jsonSchema }) => {
      checks.follow(valibotAction);
      if (valibotAction.type === 'check') return jsonSchema;
      return valibotAction.type === 'regex' ? withPattern(jsonSchema, valibotAction as unknown as Pattern) : undefined;
    },
  });
  checks.end();
  return converted;
}

/** Watches the order in which schemas and actions are converted. */
function explainedChecks() {
  let open: string | undefined;
  const end = (): void => {
    if (open !== undefined) throw new Error(`metadata has to say in JSON Schema what the ${open} before it does`);
  };
  return {
    follow({ type }: { readonly type: string }): void {
      if (type !== 'metadata' && type !== 'description') end();
      open = type === 'check' || type === 'custom' ? type : undefined;
    },
    end,
  };
}

type Converted = ReturnType<NonNullable<ConversionConfig['overrideAction']>> & object;

function without(schema: Converted, name: 'additionalProperties' | 'default'): Converted {
  const { [name]: _, ...others } = schema;
  return others;
}

/** Generators fail at a default for a nullable value, so the description says what the default is. */
function isNullable({ type }: Converted): boolean {
  return Array.isArray(type) && type.includes('null');
}

interface Pattern {
  readonly requirement: RegExp;
}

/** The converter allows only one pattern for a schema. */
function withPattern(schema: Converted, { requirement: { source, flags } }: Pattern): Converted {
  if (flags !== '') throw new Error(`JSON Schema knows no flags: /${source}/${flags}`);
  if (schema.pattern === undefined || schema.pattern === source) return { ...schema, pattern: source };
  return { ...schema, allOf: [...(schema.allOf ?? []), { pattern: source }] };
}

/** `["string", "null"]` is easier to read than a choice of two schemas. */
function orNull({ anyOf, ...others }: Converted): Converted | undefined {
  const [inner] = (anyOf ?? []) as Converted[];
  if (typeof inner?.type !== 'string' || inner.title !== undefined || inner.enum || inner.const !== undefined) {
    return undefined;
  }
  return { ...inner, ...others, type: [inner.type, 'null'] } as unknown as Converted;
}
