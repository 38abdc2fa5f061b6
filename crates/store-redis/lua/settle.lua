-- Decides requests, one after the other, at one instant. The caller gets the states as they were
-- found and the time, and works out what to tell: the numbers of a verdict are not computed here.
--
-- ARGV[1] is packed: the rules; for each key its rule and how far its time runs ahead; and the
-- requests, as a flat list of numbers:
--   key, cost, rest                                  one limit
--   0, n, and n times key, cost, rest, enforced      several: all pay, or none does
--   -1, key, amount, rest                            give back
--   -2, key                                          forget
local TOGETHER, GIVE_BACK = 0, -1
-- Answered in place of a state: the value is none of ours; or, its verdicts are told one by one.
local DAMAGED, TOLD = 1, 2

local packed = cmsgpack.unpack(ARGV[1])
local rules, keys, requests = packed[1], packed[2], packed[3]
local raw = call('MGET', unpack(KEYS))
-- Each key's rule, its algorithm, its own time, and its state in three parts.
local rule, by, at, first, second, third = {}, {}, {}, {}, {}, {}
-- Keys whose state is not what is stored, and those of them for which that matters.
local stale, changed = {}, {}
-- What to answer: each key's state as it was found, and what verdicts on logs need, charge by charge.
local found, told = {}, {}

local function forgotten(key)
  raw[key], changed[key], stale[key] = false, nil, nil
  first[key], second[key], third[key] = 0, 0, 0
  if by[key].tell then first[key] = empty() end
end

for key = 1, #KEYS do
  local it = rules[keys[key * 2 - 1]]
  rule[key], by[key], at[key] = it, ALGORITHMS[it[1]], now + keys[key * 2]
  local value = raw[key]
  found[key] = value
  if value then
    first[key], second[key], third[key] = by[key].read(it, value)
    if not first[key] then
      found[key], by[key] = DAMAGED, damaged
    end
  else
    forgotten(key)
  end
  if by[key].tell then found[key] = TOLD end
end

local function become(key, has_changed, a, b, c)
  if has_changed then
    first[key], second[key], third[key], changed[key] = a, b, c, true
  end
end

local function tell(key, cost)
  local has_changed, a, b, c =
    by[key].tell(told, rule[key], at[key], first[key], second[key], third[key], cost)
  first[key], second[key], third[key] = a, b, c
  if has_changed then stale[key] = true end
end

-- Whether a cost fits, and the state once it is taken. To look costs nothing, so it fits even where
-- too much was taken.
local function probe(key, cost, rest)
  local it = by[key]
  if it.tell then tell(key, cost) end
  local fits, a, b, c =
    it.take(rule[key], at[key], first[key], second[key], third[key], cost, rest)
  return fits or (cost == 0 and rest == 0 and not it.never), a, b, c
end

local function take(key, cost, rest)
  become(key, true, select(2,
    by[key].take(rule[key], at[key], first[key], second[key], third[key], cost, rest)))
end

local function deny(key, cost, rest)
  if stale[key] then changed[key] = true end
  become(key, by[key].deny(rule[key], at[key], first[key], second[key], third[key], cost, rest))
end

local function give(key, amount, rest)
  if raw[key] or changed[key] then
    become(key,
      by[key].give(rule[key], at[key], first[key], second[key], third[key], amount, rest))
  end
end

local function settle_one(key, cost, rest)
  local fits, a, b, c = probe(key, cost, rest)
  if cost == 0 and rest == 0 then return end
  if fits then become(key, true, a, b, c) else deny(key, cost, rest) end
end

-- What a charge and the earlier ones to the same counter cost together.
local function sum(place, i, fits)
  local key, cost, rest = unpack(requests, place + i * 4, place + i * 4 + 2)
  for j = 0, i - 1 do
    if fits[j] and requests[place + j * 4] == key then
      cost, rest = cost + requests[place + j * 4 + 1], rest + requests[place + j * 4 + 2]
    end
  end
  return key, cost, rest
end

local function settle_together(place, n)
  local fits, passes = {}, true
  for i = 0, n - 1 do
    fits[i] = probe(sum(place, i, fits))
    passes = passes and (fits[i] or requests[place + i * 4 + 3] == 0)
  end
  for i = 0, n - 1 do
    local key, cost, rest = unpack(requests, place + i * 4, place + i * 4 + 2)
    if cost > 0 or rest > 0 then
      if passes and fits[i] then take(key, cost, rest) else deny(key, cost, rest) end
    end
  end
end

local place, size = 1, #requests
while place <= size do
  local key = requests[place]
  if key > 0 then
    settle_one(key, requests[place + 1], requests[place + 2])
    place = place + 3
  elseif key == TOGETHER then
    local n = requests[place + 1]
    settle_together(place + 2, n)
    place = place + 2 + n * 4
  elseif key == GIVE_BACK then
    give(requests[place + 1], requests[place + 2], requests[place + 3])
    place = place + 4
  else
    key = requests[place + 1]
    call('DEL', KEYS[key])
    forgotten(key)
    place = place + 2
  end
end

for key = 1, #KEYS do
  if changed[key] then
    local written =
      by[key].write(KEYS[key], rule[key], at[key], raw[key], first[key], second[key], third[key])
    if not written then found[key] = DAMAGED end
  end
end

found[#KEYS + 1] = now
for i = 1, #told do found[#KEYS + 1 + i] = told[i] end
return found
