-- A rule, with all that its keys need.
local function prepared(rule)
  local it = algorithm(rule[1])
  local takes = rule[6] > 0 or rule[7] > 0
  rule.by, rule.takes, rule.cost = it, takes, string.format('%.0f', rule[6])
  rule.swift = takes and it.swift
  rule.blind = takes and it.may_be_blind and it.may_be_blind(rule)
  return rule
end

-- A key of its own, and some requests for it that are all alike.
local function settle_alone(key, rule, at, value, times)
  local it, cost, rest, takes = rule.by, rule[6], rule[7], rule.takes
  local a, b, c = read(it, rule, value)
  if not a then
    found[key] = DAMAGED
    return
  end
  local stale, changed = false, false
  for _ = 1, times do
    if it.tell then
      local has_changed
      has_changed, a, b, c = it.tell(told, rule, at, a, b, c, cost)
      stale = stale or has_changed
    end
    local fits, x, y, z = it.take(rule, at, a, b, c, cost, rest)
    if takes and not fits then
      changed = changed or stale
      fits, x, y, z = it.deny(rule, at, a, b, c, cost, rest)
    end
    if takes and fits then a, b, c, changed = x, y, z, true end
  end
  if it.tell then found[key] = TOLD end
  if changed and not it.write(KEYS[key], rule, at, value, a, b, c) then found[key] = OCCUPIED end
end

-- Keys whose counts may be added to before they are read.
local function settle_blindly(count)
  for key = 1, count do
    local rule, times, at = rules[alone[key * 2 - 1]], alone[key * 2], now + (phases[key] or 0)
    local number = rule.by.blind(KEYS[key], rule, at, times)
    if number == nil then
      number = call('MGET', KEYS[key])[1]
      found[key] = number
      settle_alone(key, rule, at, number, times)
    else
      found[key] = number
    end
  end
end

local function settle_each(count)
  for key = 1, count do
    local rule, times, at = rules[alone[key * 2 - 1]], alone[key * 2], now + (phases[key] or 0)
    local value = found[key]
    if not (value and times == 1 and rule.swift and rule.swift(KEYS[key], rule, at, value)) then
      settle_alone(key, rule, at, value, times)
    end
  end
end
